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
"""Caches answers that are valid until lasting data of a host changes; the next boot of a flavor
reuses them."""

import collections

import numpy as np

MOST = 256  # answers, each with a byte for each host


class Kept:
    """Answers by question; all are dropped when lasting data changes, which is rare.

    Lasting data are aggregates, traits, texts (for example the hypervisor's type), and the list of
    hosts: no claim or ordinary report changes them.
    """

    def __init__(self, most=MOST):
        self._answers = collections.OrderedDict()
        self._most = most

    def __len__(self):
        return len(self._answers)

    def forget(self):
        self._answers.clear()

    def get(self, question, ask):
        """Returns the answer to a question (hashable); calls ``ask()`` if it is not known."""
        answer = self._answers.get(question)
        if answer is None:
            if len(self._answers) >= self._most:
                self._answers.popitem(last=False)
            answer = self._answers[question] = ask()
            if isinstance(answer, np.ndarray):
                answer.setflags(write=False)
        else:
            self._answers.move_to_end(question)
        return answer
