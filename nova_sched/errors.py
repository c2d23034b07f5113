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

"""Every error of nova_sched, as types that carry facts.

SchedError
+- NoValidHost               nothing passed; ``steps`` lists the filters and what each removed
|  +- TooManyConflicts       hosts passed, but other requests claimed them first, each time
|  +- Superseded             another request for the same instance was answered already
|  +- AlreadyRunning         the instance runs on a host, and the request is not a move from there
|  +- MemberRefused          the request for a member of a group differs from its plan
+- GroupRefused              the members of a group cannot be placed together; see ``details``
+- GroupChanged              another request has changed the group in the meantime
+- Invalid                   the caller must change the message
|  +- MalformedObject        a versioned object that cannot be read
|  |  +- FieldNotSet         it lacks a field that is needed
|  +- TemplateError          a template that cannot be understood: where, and why
|  +- IncompatibleObject     an object of a major version that is not known
|  +- InvalidRequest         a request that makes no sense
|  +- BadReport              a node's report that cannot be true
|     +- NodeOwned           a node that another host reports already
+- ComputeResourcesUnavailable   one node is short of something; ``shortages``
+- MoveRefused               a server stays where it is
+- AlreadyPlaced             the instance runs on a host already
+- Outdated                  a message that came too late: nothing is done
+- BuildFailed               a node has capacity for an instance, but the operation on it failed
+- QuotaExceeded             the project would have more than its limit
+- RateLimited               the project asks for plans too often: nothing is done
+- ServiceBusy               as many requests wait for a service as may: nothing is done
+- PolicyForbidden           the access policy does not allow it to the caller
+- LimitsUnknown             Keystone does not return the limits of a project: nothing is done
+- FlavorExists              another flavor of that name exists already
+- NotFound                  the named object is not known
|  +- ClaimNotFound
|  +- FlavorNotFound
|  +- GroupNotFound
|  +- JobNotFound
|  +- MoveNotFound
|  +- RebalanceNotFound
|  +- CandidateNotFound      never offered, or not any more
|  +- NodeNotFound
+- MaxRetriesExceeded        every alternate failed
+- StoreUnavailable          the database does not answer: the request may be done; repeat it
|  +- StoreBusy              conflict with other transactions: nothing is done; repeat it at once
+- StoreFull                 the database is full: nothing is done, and a repeat does not help
+- BrokerUnavailable         the broker does not answer: the request may be done or not
|  +- BrokerRefused          it refuses the user, the password or the virtual host
+- NeutronError              Neutron did not answer a question
+- NovaError                 Nova's API did not do a request
|  +- NovaUnavailable        it does not answer, or fails: the request may be done or not
|  +- NovaRefused            it refuses the request: nothing is done
|     +- NovaForbidden       its policy does not allow the request to the account
|     +- NovaConflict        the server is in no state for the request
+- PlacementError            Placement did not do a request
|  +- PlacementUnavailable   it does not answer, or fails: the request may be done or not
|  +- PlacementRefused       it refuses the request: nothing is done, and a repeat does not help
|     +- PlacementConflict   what the request is about has changed, or has no capacity left
+- NoAnswer                  no scheduler answered a call in time; the request may be done or not
+- DeadlinePassed            a question was not answered in time; nothing is done
+- BadConfig                 the daemon cannot start with this configuration
|  +- UnknownRule            no filter or weigher of that name
+- BadMachineFacts           the agent cannot trust the facts that this machine reports

Arguments are positional and plain, because an error crosses the wire as its
class name and its arguments.
"""

NOT_ENOUGH = 'There are not enough hosts available.'  # the start of a refusal, as in Nova


class SchedError(Exception):
    """Base of all errors; ``message`` is formatted with the names in ``facts``."""

    facts: tuple[str, ...] = ()
    message = 'scheduler error'

    def __init__(self, *args):
        super().__init__(*args)
        for name, value in zip(self.facts, args, strict=False):
            setattr(self, name, value)

    def __str__(self):
        return self.message.format(**{name: getattr(self, name, None) for name in self.facts})


class NoValidHost(SchedError):
    """No node passed; ``reason``, ``steps`` and ``details`` (a mapping) are for the operator.

    ``for_tenants`` is the text that a tenant may read: it has no amounts, numbers or names of the
    cloud.
    """

    reason: str
    facts = ('reason',)
    message = 'No valid host was found. {reason}'

    def __init__(self, reason, steps=(), details=None, for_tenants=NOT_ENOUGH):
        super().__init__(reason)
        self.steps = steps
        self.details = details
        self.for_tenants = for_tenants


class TooManyConflicts(NoValidHost):
    """Hosts passed, but another request took each of them before the claim was made."""

    def __init__(self, attempts):
        text = f'Hosts that fit were taken by other requests, {attempts} times in a row.'
        super().__init__(text, for_tenants=text)
        self.args = (attempts,)


class Superseded(NoValidHost):
    """Another request for the same instance was answered before this one, and its claim stands."""

    def __init__(self, instance):
        text = f'Another request for instance {instance} was answered already.'
        super().__init__(text, for_tenants=text)
        self.args = (instance,)


class AlreadyRunning(NoValidHost):
    """A request for an instance that runs on ``host`` would place it elsewhere, but is not a
    move."""

    def __init__(self, instance, host):
        text = 'Instance {} runs on {}, and the request is not a move from there.'
        super().__init__(
            text.format(instance, f'host {host}'), for_tenants=text.format(instance, 'a host')
        )
        self.args = (instance, host)


class MemberRefused(NoValidHost):
    """A server does not match the member that it names: ``member`` is its path, ``why`` has both
    values."""

    def __init__(self, member, why):
        text = f'Member {member} of its group: {why}.'
        super().__init__(text, for_tenants=text)
        self.args = (member, why)


class GroupRefused(SchedError):
    """No placement fits all members of a group; ``details`` are plain values, as
    groups.why returns them."""

    reason: str
    facts = ('reason', 'details')
    message = 'The group cannot be placed. {reason}'

    def __init__(self, reason, details=None):
        super().__init__(reason, details)


class GroupChanged(SchedError):
    """The caller has seen generation ``expected`` of the group, which is at ``found`` now."""

    facts = ('uuid', 'expected', 'found')
    message = (
        'Group {uuid} is at generation {found}, not {expected}: another request has changed it'
    )


class Invalid(SchedError):
    """The message is refused and changed nothing."""


class MalformedObject(Invalid):
    why: str
    facts = ('path', 'why')
    message = 'Malformed object at {path}: {why}'


class FieldNotSet(MalformedObject, NotImplementedError):
    """Raised where the field is read. It is a NotImplementedError too, as in
    oslo.versionedobjects."""


class TemplateError(Invalid):
    """``where`` is the path within the template; ``line`` and ``column`` count from 1, None where
    unknown."""

    facts = ('where', 'line', 'column', 'why')
    message = 'Template, line {line}, column {column}, {where}: {why}'

    @property
    def fault(self):
        """Return the place in the text, and why, without the word template."""
        place = self.where if self.line is None else f'line {self.line}, column {self.column}'
        return f'{place}: {self.why}'

    def __str__(self):
        if self.line is None:
            return f'Template, {self.where}: {self.why}'
        return super().__str__()


class IncompatibleObject(Invalid):
    facts = ('name', 'version', 'supported')
    message = 'Object {name} of version {version} cannot be read; supported is {supported}'


class InvalidRequest(Invalid):
    facts = ('where', 'why')
    message = 'Invalid request, {where}: {why}'


class BadReport(Invalid):
    facts = ('node', 'field', 'why')
    message = 'Report of node {node} refused, {field}: {why}'


class NodeOwned(BadReport):
    """Two hosts report one node."""


class ComputeResourcesUnavailable(SchedError):
    """One node lacks something; ``shortages`` lists each as text."""

    shortages: str
    facts = ('node', 'shortages')
    message = 'Node {node} cannot take the claim: {shortages}'


class MoveRefused(SchedError):
    """A move of a rebalance does not start: ``why`` names the rule, or what is wrong."""

    why: str
    facts = ('why',)
    message = 'The server is not moved: {why}'


class AlreadyPlaced(SchedError):
    """A claim for a new instance is refused, because it has a confirmed one on ``host``."""

    facts = ('instance', 'host')
    message = 'Instance {instance} is on host {host} already'


class Outdated(SchedError):
    """``what`` came too late: its caller does not wait any more, or its subject has changed since
    it was sent."""

    facts = ('what', 'why')
    message = '{what} came too late: {why}'


class BuildFailed(SchedError):
    """``why`` is for users; ``stdout`` and ``stderr``, the ends of what the driver's command has
    printed, are for operators."""

    host: str
    why: str
    facts = ('host', 'why')
    message = 'Host {host} has failed: {why}'

    def __init__(self, host, why, stdout='', stderr=''):
        super().__init__(host, why)
        self.stdout, self.stderr = stdout, stderr


class QuotaExceeded(SchedError):
    """``used`` does not include the request. ``resource`` is `servers`, `class:` and a resource
    class, or one of claims.plan_quota."""

    facts = ('project', 'resource', 'asked', 'used', 'limit')
    message = 'Project {project}: {asked} {resource} asked, {used} of {limit} used'


class RateLimited(SchedError):
    """``retry_s``: seconds until the next request is accepted."""

    facts = ('limit', 'retry_s')
    message = 'The project may ask for plans {limit}; try again in {retry_s} s'


class ServiceBusy(SchedError):
    facts = ('service',)
    message = 'Too many requests wait for the {service}; nothing was done. Repeat the request'


class PolicyForbidden(SchedError):
    facts = ('why',)
    message = 'The access policy does not allow it: {why}'


class LimitsUnknown(SchedError):
    facts = ('project', 'why')
    message = 'Keystone does not return the limits of project {project}: {why}'


class FlavorExists(SchedError):
    facts = ('name', 'why')
    message = 'There is a flavor {name} already: {why}'


class NotFound(SchedError):
    facts = ('what',)
    message = '{what} is not known'


class HostNotFound(NotFound):
    """No node or operator ever named the host; ``advice`` may name a similar one."""

    facts = ('what', 'advice')
    message = '{what} is not known{advice}'


class ClaimNotFound(NotFound):
    message = 'There is no claim of {what}'


class FlavorNotFound(NotFound):
    message = 'There is no flavor {what}'


class JobNotFound(NotFound):
    message = 'There is no job {what}'


class MoveNotFound(NotFound):
    message = 'There is no move {what}'


class RebalanceNotFound(NotFound):
    message = 'There is no rebalance {what}'


class GroupNotFound(NotFound):
    message = 'There is no placement group {what}'


class CandidateNotFound(NotFound):
    message = 'There is no candidate {what}, or it has expired'


class NodeNotFound(NotFound):
    message = 'There is no node {what}'


class MaxRetriesExceeded(SchedError):
    facts = ('instance', 'tried')
    message = 'Exhausted all hosts available for instance {instance}: tried {tried}'


class StoreUnavailable(SchedError):
    facts = ('why',)
    message = 'The database does not answer: {why}'


class StoreBusy(StoreUnavailable):
    """A deadlock, or a lock that took too long."""

    message = 'The database is busy: {why}'


class StoreFull(SchedError):
    facts = ('why',)
    message = 'The database is full: {why}'


class BrokerUnavailable(SchedError):
    why: str
    facts = ('why',)
    message = 'The broker does not answer: {why}'


class BrokerRefused(BrokerUnavailable):
    """The broker refuses the user, the password or the virtual host."""

    message = 'The broker refuses the connection: {why}'


class PlacementError(SchedError):
    """``why`` has Placement's own words where there are any."""

    facts: tuple[str, ...] = ('why',)
    message = 'Placement: {why}'


class NeutronError(SchedError):
    """Nothing was changed. ``why`` has Neutron's own words where there are any."""

    facts: tuple[str, ...] = ('why',)
    message = 'Neutron: {why}'


class NovaError(SchedError):
    """``why`` has the words of Nova's API where there are any."""

    why: str
    facts: tuple[str, ...] = ('why',)
    message = 'Nova: {why}'


class NovaUnavailable(NovaError):
    message = 'Nova does not answer: {why}'


class NovaRefused(NovaError):
    """``status`` is the HTTP status; None: there was no request, because Keystone or the
    configuration does not allow it."""

    facts = ('why', 'status')
    message = 'Nova refuses a request: {why}'


class NovaForbidden(NovaRefused):
    facts = ('why',)
    message = (
        'Nova does not allow a request to the account of [nova_api], which needs the role admin: '
        '{why}'
    )


class NovaConflict(NovaRefused):
    facts = ('why',)


class PlacementUnavailable(PlacementError):
    message = 'Placement does not answer: {why}'


class PlacementRefused(PlacementError):
    """``status`` is the HTTP status; None: there was no request, because Keystone or the
    configuration does not allow it."""

    facts = ('why', 'status')
    message = 'Placement refuses a request: {why}'


class PlacementConflict(PlacementRefused):
    """``code`` is Placement's code of the error; see ``is_about_consumer``."""

    facts = ('why', 'code')

    @property
    def is_concurrent(self):
        """Whether another request was faster: its subject has another generation."""
        return self.code == 'placement.concurrent_update'

    @property
    def is_about_consumer(self):
        """Whether the consumer has another generation than the request says."""
        return self.is_concurrent and 'consumer generation conflict' in self.why


class NoAnswer(SchedError):
    facts = ('method', 'why')
    message = 'No answer to {method}: {why}'


class DeadlinePassed(SchedError):
    """Nobody needs the answer any more; no state was changed."""

    facts = ('what', 'seconds')
    message = '{what} took longer than {seconds} s; nothing was changed'


class BadConfig(SchedError):
    facts = ('where', 'why')
    message = 'Bad configuration, {where}: {why}'


class UnknownRule(BadConfig):
    """``where`` is the option; ``why`` has the unknown name and the list of known ones."""


class BadMachineFacts(SchedError):
    facts = ('what', 'why')
    message = 'Cannot read {what} of this machine: {why}'
