# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""Places a group exactly, or proves that it has no placement. The entry is ``worker.Solver``.

::

    worker      the solver's process, and the handle through which others call it
    tasks       what it does: repair, improve, count the members that fit, explain
    symmetry    sets of interchangeable units and blocks, on fewer hosts if there are too many, and
                back to members
    model       the variables, the required rules, and the objective: preferred policies, moves,
                scores
    search      one search of a model: its time, and what ends it early; for other models, too
"""
