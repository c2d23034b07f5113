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
"""Rules that were not written for this scheduler: an operator may name them by path."""


class OutOfTreeFilter:
    """A filter as it is written for Nova."""

    def host_passes(self, host_state, spec_obj):
        return host_state.host == 'host-1'


class OutOfTreeWeigher:
    """A weigher as it is written for Nova."""

    def weight_multiplier(self, host_state):
        return 1.0

    def weigh_objects(self, weighed_obj_list, weight_properties):
        return [float(one.obj.host == 'host-1') for one in weighed_obj_list]


class PickyFilter:
    """A filter that cannot be made."""

    def __init__(self):
        raise RuntimeError('no such rack')


NUMBER = 1


def numbers():
    """A list, but of no classes."""
    return [NUMBER]


def everything():
    """As Nova's own `all_filters`: a function that lists classes."""
    return [OutOfTreeFilter]
