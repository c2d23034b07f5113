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
"""The typed clients of the scheduler's namespaces, for conductors, compute nodes and the tools of
this package."""

import oslo_messaging as messaging
from oslo_context.context import RequestContext

from nova_sched import errors
from nova_sched.rpc import EXCHANGE, SHADOW_TOPIC, TOPIC, try_once
from nova_sched.rpc.messages import NovaNoValidHost, Serializer, known

# Seconds: the time that a conductor waits for an answer, and for a heartbeat in the meantime.
LONG_TIMEOUT_S, MONITOR_TIMEOUT_S = 1800, 60


class NamespaceClient:
    """One namespace of the scheduler over a bus.

    Failures are raised as the classes of ``nova_sched.errors``. ``attempts`` is how often a
    message is sent to a bus that does not answer; None: until it does, longer than ``timeout_s``.
    """

    NAMESPACE: str | None = None
    TOPIC = TOPIC
    VERSION = '1.0'

    def __init__(self, bus, timeout_s=LONG_TIMEOUT_S, monitor_s=MONITOR_TIMEOUT_S, attempts=None):
        target = messaging.Target(
            exchange=EXCHANGE, topic=self.TOPIC, namespace=self.NAMESPACE, version=self.VERSION
        )
        options = {'timeout': timeout_s, 'serializer': Serializer(timeout_s)}
        if monitor_s is not None and monitor_s < timeout_s:
            options['call_monitor_timeout'] = monitor_s
        self._unreached = None
        if attempts is not None:
            options['retry'] = attempts - 1
            # Before the first call, oslo.messaging connects for its answers, in any number of
            # attempts.
            self._unreached = bus
        self._client = messaging.get_rpc_client(bus, target, **options)

    def call(self, context, method, rpc_version=None, **kwargs):
        """Call and wait. ``context`` None makes a new one; ``rpc_version`` replaces the client's
        version. Raises NoAnswer."""
        context = context or RequestContext(overwrite=False)
        if self._unreached is not None:
            try:
                try_once(self._unreached)
            except errors.BrokerUnavailable as error:
                raise errors.NoAnswer(method, str(error)) from None
            self._unreached = None
        try:
            client = self._client
            if rpc_version is not None:
                client = client.prepare(version=rpc_version)
            return client.call(context, method, **kwargs)
        except (messaging.RemoteError, NovaNoValidHost, errors.SchedError) as error:
            raise known(error) from None
        except (messaging.MessagingTimeout, messaging.MessageDeliveryFailure, OSError) as error:
            # An OSError is a connection that broke while oslo.messaging opened it.
            raise errors.NoAnswer(method, str(error)) from None

    def cast(self, context, method, version, **kwargs):
        """Cast to every scheduler, without waiting."""
        prepared = self._client.prepare(fanout=True, version=version)
        prepared.cast(context or RequestContext(overwrite=False), method, **kwargs)


class SchedulerClient(NamespaceClient):
    """Calls of a conductor, and casts of the API and of compute nodes."""

    VERSION = '4.5'

    def select_destinations(self, spec_obj, instance_uuids, return_alternates=True, context=None):
        """Return for each instance a list of Selection: the claimed host, then alternates. Raises
        NoValidHost."""
        return self.call(
            context,
            'select_destinations',
            spec_obj=spec_obj,
            instance_uuids=instance_uuids,
            return_objects=True,
            return_alternates=return_alternates,
        )

    def update_aggregates(self, aggregates, context=None):
        self.cast(context, 'update_aggregates', '4.1', aggregates=aggregates)

    def delete_aggregate(self, aggregate, context=None):
        self.cast(context, 'delete_aggregate', '4.1', aggregate=aggregate)

    def update_instance_info(self, host_name, instance_info, context=None):
        self.cast(
            context,
            'update_instance_info',
            '4.2',
            host_name=host_name,
            instance_info=instance_info,
        )

    def delete_instance_info(self, host_name, instance_uuid, context=None):
        self.cast(
            context,
            'delete_instance_info',
            '4.2',
            host_name=host_name,
            instance_uuid=instance_uuid,
        )

    def sync_instance_info(self, host_name, instance_uuids, context=None):
        self.cast(
            context,
            'sync_instance_info',
            '4.2',
            host_name=host_name,
            instance_uuids=instance_uuids,
        )


class StatsClient(NamespaceClient):
    """Calls of compute nodes and operators."""

    NAMESPACE = 'stats'
    VERSION = '1.1'
    NEWEST = '1.2'  # with amounts of instances, and what the sender has seen

    def update_resource_stats(
        self,
        name,
        stats,
        instances=None,
        inventories=None,
        cell_uuid=None,
        context=None,
        boot=None,
        sequence=None,
        seen=None,
    ):
        """Report a node (a ComputeNode). Returns the accepted facts, as a mapping. Raises
        BadReport.

        ``instances`` are UUIDs. If the last answer had ``version`` 1.2 or later, they may be a
        mapping of UUIDs to the amounts that each instance holds, by resource class, and ``seen``
        is the node's generation in the last answer before the sender looked at the node. ``boot``
        and ``sequence``: the number of the sender's start, and of the report since that start,
        whole numbers from 1.
        """
        counted = {} if boot is None else {'boot': boot, 'sequence': sequence}
        if seen is not None:
            counted['seen'] = seen
        if seen is not None or isinstance(instances, dict):
            counted['rpc_version'] = self.NEWEST
        return self.call(
            context,
            'update_resource_stats',
            name=name,
            stats=stats,
            instances=instances,
            inventories=inventories,
            cell_uuid=cell_uuid,
            **counted,
        )

    def update_service(self, name, service, context=None):
        self.call(context, 'update_service', name=name, service=service)

    def remove_node(self, name, nodename, context=None, generation=None):
        """Remove the node that the caller has seen at this generation; without one, a node without
        confirmed claims. Raises NodeNotFound, and Outdated if it is another one."""
        known = {'generation': generation, 'rpc_version': self.NEWEST} if generation else {}
        self.call(context, 'remove_node', name=name, nodename=nodename, **known)


class ClaimsClient(NamespaceClient):
    """Calls of conductors, agents and queue workers about claims; all return ClaimInfo objects."""

    NAMESPACE = 'claims'
    VERSION = '1.2'
    NEWEST = '1.3'  # with the resize that gives way, and the end of a confirmed claim

    def instance_claim(self, spec_obj, instance_uuid, host, nodename, context=None, new=False):
        """Raise NodeNotFound or ComputeResourcesUnavailable.

        ``new``: the instance runs nowhere yet. If it runs on that node, its claim there is
        returned as it is; raises AlreadyPlaced if it runs on another one.
        """
        return self.call(
            context,
            'instance_claim',
            spec_obj=spec_obj,
            instance_uuid=instance_uuid,
            host=host,
            nodename=nodename,
            new=new,
        )

    def claim_alternate(
        self, spec_obj, instance_uuid, failed_host, host, nodename, context=None, claim=None
    ):
        """Raise NodeNotFound or ComputeResourcesUnavailable; then the old claim stands.

        ``claim``: the name of the claim on the failed host; raises ClaimNotFound if that has ended
        in favour of another one, and Outdated if it is confirmed.
        """
        return self.call(
            context,
            'claim_alternate',
            spec_obj=spec_obj,
            instance_uuid=instance_uuid,
            failed_host=failed_host,
            host=host,
            nodename=nodename,
            **_named(claim),
        )

    def resize_claim(
        self, spec_obj, instance_uuid, host, nodename, move='resize', context=None, claim=None
    ):
        """Raise NodeNotFound or ComputeResourcesUnavailable.

        ``claim``: the name of an open resize on the node that ends with it. Raises Outdated if
        another one is open there.
        """
        named = {} if claim is None else {'claim': claim, 'rpc_version': self.NEWEST}
        return self.call(
            context,
            'resize_claim',
            spec_obj=spec_obj,
            instance_uuid=instance_uuid,
            host=host,
            nodename=nodename,
            move=move,
            **named,
        )

    # ``claim`` is the UUID of the intended claim, the ``name`` of its ClaimInfo. A call that is
    # repeated or late does not touch another claim. Without it, only a build can be confirmed.
    # Raises Outdated without the claim, and if the claim is not as its caller knew it.

    def confirm_claim(self, instance_uuid, host, context=None, claim=None):
        """Raise ClaimNotFound."""
        named = _named(claim)
        return self.call(context, 'confirm_claim', instance_uuid=instance_uuid, host=host, **named)

    def revert_claim(self, instance_uuid, context=None, claim=None):
        """Raise ClaimNotFound."""
        return self.call(context, 'revert_claim', instance_uuid=instance_uuid, **_named(claim))

    def abort_claim(self, instance_uuid, host=None, context=None, claim=None, confirmed=False):
        """Raise ClaimNotFound; and Outdated for a confirmed claim, unless ``confirmed``."""
        named = _named(claim)
        if confirmed:
            named |= {'confirmed': True, 'rpc_version': self.NEWEST}
        return self.call(context, 'abort_claim', instance_uuid=instance_uuid, host=host, **named)

    def show(self, instance_uuid, context=None):
        return self.call(context, 'show', instance_uuid=instance_uuid)


def _named(claim):
    """The argument that names a claim, if one is named: a scheduler of an older release does not
    know it."""
    return {} if claim is None else {'claim': claim}


class CandidatesClient(NamespaceClient):
    """Calls of a conductor that uses UUIDs of hosts instead of Selections."""

    NAMESPACE = 'candidates'

    def select_candidates(self, spec_obj, instance_uuids=None, count=None, context=None):
        """For each instance a list of Candidate, the best first; nothing is claimed. Raises
        NoValidHost."""
        return self.call(
            context,
            'select_candidates',
            spec_obj=spec_obj,
            instance_uuids=instance_uuids,
            count=count,
        )

    def claim_candidate(self, uuid, context=None):
        """A ClaimInfo. Raises CandidateNotFound, NodeNotFound or ComputeResourcesUnavailable."""
        return self.call(context, 'claim_candidate', uuid=uuid)


class GroupsClient(NamespaceClient):
    """Calls of orchestration and operators about groups; groups are TopGroup objects.

    The endpoint describes the arguments. With a ``project_id`` only groups of that project are
    known.
    """

    NAMESPACE = 'groups'
    VERSION = '1.2'

    def create(
        self,
        template,
        name=None,
        parameters=None,
        flavors=None,
        images=None,
        ttl=None,
        dry_run=False,
        context=None,
        exclusive_levels=None,
        operator_specs=True,
    ):
        """Return the group, planned and claimed as a whole. Raises TemplateError or
        GroupRefused."""
        return self.call(
            context,
            'create',
            template=template,
            name=name,
            parameters=parameters,
            flavors=flavors,
            images=images,
            ttl=ttl,
            dry_run=dry_run,
            exclusive_levels=exclusive_levels,
            operator_specs=operator_specs,
        )

    def update(
        self,
        uuid,
        template,
        parameters=None,
        flavors=None,
        images=None,
        generation=None,
        dry_run=False,
        project_id=None,
        ttl=None,
        context=None,
        exclusive_levels=None,
        renew=True,
        operator_specs=True,
    ):
        """Return the group with its ``moves``. Raises GroupNotFound, GroupChanged, TemplateError
        or GroupRefused."""
        return self.call(
            context,
            'update',
            uuid=uuid,
            template=template,
            parameters=parameters,
            flavors=flavors,
            images=images,
            generation=generation,
            dry_run=dry_run,
            project_id=project_id,
            ttl=ttl,
            exclusive_levels=exclusive_levels,
            renew=renew,
            operator_specs=operator_specs,
        )

    def delete(self, uuid, generation=None, dry_run=False, project_id=None, context=None):
        """Return None, or with ``dry_run`` the group as it would be left. Raises GroupNotFound or
        GroupChanged."""
        return self.call(
            context,
            'delete',
            uuid=uuid,
            generation=generation,
            dry_run=dry_run,
            project_id=project_id,
        )

    def show(self, uuid, project_id=None, context=None):
        """Raise GroupNotFound."""
        return self.call(context, 'show', uuid=uuid, project_id=project_id)

    def list(self, project_id=None, name=None, marker=None, limit=None, context=None):
        """Return groups without members, oldest first. Raises GroupNotFound for an unknown
        marker."""
        return self.call(
            context, 'list', project_id=project_id, name=name, marker=marker, limit=limit
        )

    def plan(self, uuid, project_id=None, replan=False, dry_run=False, context=None):
        """Raise GroupNotFound; with ``replan`` also GroupRefused."""
        return self.call(
            context, 'plan', uuid=uuid, project_id=project_id, replan=replan, dry_run=dry_run
        )

    def renew(self, uuid, ttl=None, project_id=None, dry_run=False, context=None):
        """Raise GroupNotFound."""
        return self.call(
            context, 'renew', uuid=uuid, ttl=ttl, project_id=project_id, dry_run=dry_run
        )

    def topology(self, context=None):
        """Return a mapping of plain values."""
        return self.call(context, 'topology')

    def validate(
        self,
        template,
        parameters=None,
        flavors=None,
        images=None,
        context=None,
        operator_specs=True,
    ):
        """Return a mapping of plain values. Raises TemplateError."""
        return self.call(
            context,
            'validate',
            template=template,
            parameters=parameters,
            flavors=flavors,
            images=images,
            operator_specs=operator_specs,
        )


class QueuesClient(NamespaceClient):
    """Calls of agents, routers and operators to a manager of queues. The endpoint describes the
    plain values."""

    NAMESPACE = 'queues'
    TOPIC = 'nova_sched_queues'

    def catalogue(self, host=None, context=None):
        """A mapping, with the aggregates of the host."""
        return self.call(context, 'catalogue', host=host)

    def flavor_create(self, flavor, context=None):
        """The flavor. Raises FlavorExists or InvalidRequest."""
        return self.call(context, 'flavor_create', flavor=flavor)

    def flavor_delete(self, name, context=None):
        """Raise FlavorNotFound."""
        self.call(context, 'flavor_delete', name=name)

    def flavor_list(self, context=None):
        """A mapping of ``version`` (of the catalogue) and ``flavors`` (mappings, by name)."""
        return self.call(context, 'flavor_list')

    def facts(self, marker=None, limit=None, context=None):
        """Mappings of name, queue, ready and consumers. Raises NotFound for an unknown marker."""
        return self.call(context, 'facts', marker=marker, limit=limit)


class ExplainClient(NamespaceClient):
    """Calls of operators; all return plain mappings, which the endpoint describes."""

    NAMESPACE, VERSION = 'explain', '1.4'

    def dry_run(self, spec_obj, context=None):
        return self.call(context, 'dry_run', spec_obj=spec_obj)

    def why_not(self, spec_obj, host, context=None):
        """Raise NotFound."""
        return self.call(context, 'why_not', spec_obj=spec_obj, host=host)

    def health(self, context=None):
        return self.call(context, 'health')

    def capacity(self, spec_obj, context=None):
        return self.call(context, 'capacity', spec_obj=spec_obj)

    def fragmentation(self, zone=None, aggregate=None, most=10, context=None):
        """Raise NotFound."""
        return self.call(context, 'fragmentation', zone=zone, aggregate=aggregate, most=most)

    def rank_hosts(self, spec_obj, hosts, weights=None, check_type=None, context=None):
        """The names of hosts, best first. Raises NoAnswer, or Outdated."""
        return self.call(
            context,
            'rank_hosts',
            spec_obj=spec_obj,
            hosts=hosts,
            weights=weights,
            check_type=check_type,
        )

    def plan_moves(
        self,
        goal,
        moves=None,
        zone=None,
        aggregate=None,
        spec_obj=None,
        thorough_s=None,
        context=None,
    ):
        """Raise InvalidRequest."""
        return self.call(
            context,
            'plan_moves',
            goal=goal,
            moves=moves,
            zone=zone,
            aggregate=aggregate,
            spec_obj=spec_obj,
            thorough_s=thorough_s,
        )

    def show(self, request_id, context=None):
        return self.call(context, 'show', request_id=request_id)


class RebalancesClient(NamespaceClient):
    """Calls of operators about moves that are carried out; all return plain values, which the
    endpoint describes."""

    NAMESPACE = 'rebalances'

    def create(self, uuid, moves, close_s=None, context=None):
        """Raise InvalidRequest."""
        return self.call(context, 'create', uuid=uuid, moves=moves, close_s=close_s)

    def list(self, marker=None, limit=None, context=None):
        """Raise RebalanceNotFound for the marker."""
        return self.call(context, 'list', marker=marker, limit=limit)

    def show(self, uuid, context=None):
        """Raise RebalanceNotFound."""
        return self.call(context, 'show', uuid=uuid)

    def stop(self, uuid, context=None):
        """Raise RebalanceNotFound."""
        return self.call(context, 'stop', uuid=uuid)


class CloudClient(NamespaceClient):
    """Calls of operators about the Nova cloud that a scheduler reads."""

    NAMESPACE = 'cloud'

    def status(self, context=None):
        """Return a mapping, which the endpoint describes. Raises InvalidRequest."""
        return self.call(context, 'status')


class ShadowCloudClient(CloudClient):
    """The same, to a scheduler that only watches."""

    TOPIC = SHADOW_TOPIC


class ShadowExplainClient(ExplainClient):
    """The same, to a scheduler that only watches."""

    TOPIC = SHADOW_TOPIC
