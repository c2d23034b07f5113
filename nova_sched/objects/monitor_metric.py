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

"""Measurements that a node reports about itself."""

import math

from nova_sched import errors
from nova_sched.objects import base, enums, fields, json_text, object_io

# These are reported as whole numbers up to 100, and stored as fractions of 1.
PERCENTAGES = frozenset(
    {
        'cpu.user.percent',
        'cpu.kernel.percent',
        'cpu.idle.percent',
        'cpu.iowait.percent',
        'cpu.percent',
    }
)


@base.register
class MonitorMetric(base.NovaObject):
    """One measurement; percentages are whole numbers up to 100."""

    VERSION = '1.1'
    ADDED_IN = {'numa_membw_values': '1.1'}

    fields = {
        'name': enums.MonitorMetricTypeField(),
        'value': fields.IntegerField(),
        'numa_membw_values': fields.DictOfIntegersField(nullable=True),
        'timestamp': fields.DateTimeField(),
        'source': fields.StringField(),
    }

    @classmethod
    def from_dict(cls, metric):
        """Returns the metric as a ComputeNode stores it: percentages as fractions of 1. Raises
        MalformedObject."""
        if not isinstance(metric, dict):
            raise errors.MalformedObject('MonitorMetric', 'a dict is required')
        data = dict(metric)
        value = data.get('value')
        if data.get('name') in PERCENTAGES and isinstance(value, float | int):
            # The stored fraction came from a whole number; rounding restores it.
            data['value'] = round(value * 100) if math.isfinite(value) else value
        return object_io.read(object_io.primitive('MonitorMetric', data))

    def to_dict(self):
        """Returns the form in which a ComputeNode stores it."""
        data = self.obj_to_primitive()[object_io.DATA]
        if data.get('name') in PERCENTAGES:
            data['value'] /= 100
        return data


@base.register
class MonitorMetricList(base.NovaList):
    """Measurements of one node."""

    VERSION = '1.1'

    fields = {
        'objects': fields.ListOfObjectsField('MonitorMetric'),
    }

    @classmethod
    def from_json(cls, text):
        """Returns the metrics that a ComputeNode carries as text; none for null. Raises
        MalformedObject."""
        metrics = json_text.load(text, 'MonitorMetricList') if text else []
        if not isinstance(metrics, list):
            raise errors.MalformedObject('MonitorMetricList', 'a list is required')
        return cls(objects=[MonitorMetric.from_dict(metric) for metric in metrics])

    def to_list(self):
        """Returns the form in which a ComputeNode stores it, before it is converted to JSON
        text."""
        return [metric.to_dict() for metric in self]
