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

"""The namespace of Nova's scheduler, RPC 4.0 to 4.5, for calls of conductors and casts of compute
nodes; and `baseapi`, which every service of Nova answers."""

import oslo_messaging as messaging

from nova_sched import errors, words
from nova_sched.rpc import translate
from nova_sched.rpc.messages import begins, expected


class SchedulerEndpoint:
    target = messaging.Target(version='4.5')

    def __init__(self, scheduler):
        self._scheduler = scheduler

    @expected
    @begins
    def select_destinations(
        self,
        context,
        request_spec=None,
        filter_properties=None,
        spec_obj=None,
        instance_uuids=None,
        return_objects=False,
        return_alternates=False,
    ):
        """A claimed host for each instance. Callers below 4.4 name no instances, and nothing is
        claimed for them."""
        spec = translate.spec(spec_obj, request_spec, filter_properties)
        requests = translate.requests(spec, instance_uuids)
        return self._begin(context, requests, instance_uuids, return_objects, return_alternates)

    def _begin(self, context, requests, instance_uuids, return_objects, return_alternates):
        """The Deferred of a call's requests."""
        placed = self._scheduler.begin_place(
            requests,
            alternates=return_objects and return_alternates,
            claim=bool(instance_uuids),
            context=context,
        )

        def finish():
            try:
                return translate.selections(placed.result(), return_objects)
            except errors.NoValidHost as refusal:
                raise self._scheduler.for_caller(refusal, context) from None

        return placed.then(finish)

    @expected
    def update_aggregates(self, context, aggregates):
        self._scheduler.call(
            self._scheduler.state_sync.set_aggregates, translate.aggregates(aggregates)
        )

    @expected
    def delete_aggregate(self, context, aggregate):
        aggregate_id = translate.aggregate_id(aggregate)
        self._scheduler.call(self._scheduler.state_sync.set_aggregate, aggregate_id, None)

    @expected
    def update_instance_info(self, context, host_name, instance_info):
        uuids = translate.instance_uuids(instance_info, 'instance_info') or ()
        added = self._scheduler.state_sync.instances_added
        self._scheduler.call(added, words.name(host_name, 'host_name'), uuids)

    @expected
    def delete_instance_info(self, context, host_name, instance_uuid):
        host, uuid = words.name(host_name, 'host_name'), words.uuid(instance_uuid, 'instance_uuid')
        self._scheduler.call(self._scheduler.state_sync.instance_gone, host, uuid)

    @expected
    def sync_instance_info(self, context, host_name, instance_uuids):
        uuids = translate.instance_uuids(instance_uuids, 'instance_uuids') or ()
        listed = self._scheduler.state_sync.instances_are
        self._scheduler.call(listed, words.name(host_name, 'host_name'), uuids)


class BaseApiEndpoint:
    target = messaging.Target(namespace='baseapi', version='1.1')

    @expected
    @begins
    def ping(self, context, arg):
        """Return the argument, and the name of the service."""
        return {'service': 'scheduler', 'arg': arg}

    @expected
    def get_backdoor_port(self, context):
        """Return None: there is no backdoor."""
