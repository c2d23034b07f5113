from ortools.sat.python import cp_model
