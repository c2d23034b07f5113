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
"""Placement's API, as far as a scheduler needs it."""

import collections
import contextlib
import dataclasses
import math
import operator
import time
from collections.abc import Mapping

from nova_sched import errors
from nova_sched.claim import MEMORY_MB
from nova_sched.cloud import keystone
from nova_sched.conf.services import register_keystone_opts
from nova_sched.measures.catalogue import PLACEMENT_REQUESTS, PLACEMENT_SECONDS

MICROVERSION = '1.36'
# How long the scheduler waits for the answer to a removal: as long as a conductor for its own.
REMOVAL_S = 60.0
SLOW = 3  # times the read timeout for an answer about all providers
NOBODY = '00000000-0000-0000-0000-000000000000'  # a consumer and a provider that do not exist
BAD_FORM = 400
READERS = 64  # connections that are kept for other requests than those that write

Amounts = Mapping[str, int]  # by resource class


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerAllocations:
    """What one consumer is allocated: amounts by provider UUID.

    ``generation`` is that of the consumer; None: it is new.
    """

    providers: Mapping[str, Amounts] = dataclasses.field(default_factory=dict)
    generation: int | None = None
    project_id: str | None = None
    user_id: str | None = None
    mappings: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)

    def body(self):
        """The allocations as Placement takes them for one consumer."""
        body = {
            'allocations': {
                uuid: {'resources': dict(amounts)} for uuid, amounts in self.providers.items()
            },
            'project_id': self.project_id,
            'user_id': self.user_id,
            'consumer_generation': self.generation,
        }
        return {**body, 'mappings': dict(self.mappings)} if self.mappings else body


@dataclasses.dataclass(frozen=True, slots=True)
class NodeProviders:
    """The provider tree of one compute node, whose UUID is that of the root provider.

    ``providers`` maps a provider's UUID to its `parent_provider_uuid`, `inventories` and
    `traits`, in the form of a node's report. ``generations`` is keyed by provider,
    ``allocations`` by provider and consumer. All are empty if there is no such provider.

    If only those of the root were read, ``sums`` has what is used by provider.
    """

    root_uuid: str
    providers: Mapping[str, Mapping] = dataclasses.field(default_factory=dict)
    generations: Mapping[str, int] = dataclasses.field(default_factory=dict)
    allocations: Mapping[str, Mapping[str, Amounts]] = dataclasses.field(default_factory=dict)
    sums: Mapping[str, Amounts] | None = None

    @property
    def held(self):
        """What each consumer of the tree is allocated from the root, by consumer."""
        consumers = {
            consumer: {} for by_consumer in self.allocations.values() for consumer in by_consumer
        }
        return consumers | self.allocations.get(self.root_uuid, {})

    def used(self, provider_uuid):
        """What all consumers are allocated from a provider."""
        if self.sums is not None:
            return self.sums.get(provider_uuid, {})
        sums = collections.Counter()
        for amounts in self.allocations.get(provider_uuid, {}).values():
            sums.update(amounts)
        return dict(sums)


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderSummary:
    """What is used from a provider, and its traits."""

    used: Amounts
    traits: list[str]


class PlacementClient(keystone.Client):
    """Requests to Placement.

    Raises PlacementUnavailable if the outcome is not known, or an answer is malformed;
    PlacementRefused or PlacementConflict if nothing was done.
    """

    GROUP = 'placement'
    UNAVAILABLE, REFUSED = errors.PlacementUnavailable, errors.PlacementRefused

    def check(self):
        """Check the microversion and the rights of the account. Writes nothing.

        Placement looks at the rights before it looks at the body of a request: a body without
        allocations is refused for its form if the account may write them.
        """
        self.provider_trees()
        self.allocations_of(NOBODY)
        try:
            self._send('PUT', f'/allocations/{NOBODY}', {})
        except errors.PlacementRefused as error:
            if error.status != BAD_FORM:
                raise

    # Providers.

    def provider_trees(self):
        """Return all providers, by root provider and by provider: mappings with `generation` and
        `parent_provider_uuid`."""
        answer = self._get('/resource_providers', timeouts_s=self._slow_s)
        trees = {}
        for provider in _providers('all resource providers', answer):
            trees.setdefault(provider['root_provider_uuid'], {})[provider['uuid']] = provider
        return trees

    def summaries(self):
        """Return ProviderSummaries by provider, of all trees that have memory left."""
        query = {'resources': f'{MEMORY_MB}:1'}
        answer = self._get('/allocation_candidates', timeouts_s=self._slow_s, **query)
        with _reading('the summaries of all resource providers'):
            summaries = [*answer['provider_summaries'].items()]
        return dict(_summary(uuid, summary) for uuid, summary in summaries)

    def inventories(self, provider_uuid):
        """Return the inventories of a provider."""
        answer = self._get(f'/resource_providers/{provider_uuid}/inventories')
        with _reading(f'the inventories of provider {provider_uuid}'):
            return {name: dict(given) for name, given in answer['inventories'].items()}

    def root_of(self, provider_uuid):
        """Return the UUID of the root of the provider's tree; None if there is no such
        provider."""
        tree = self._of_tree(provider_uuid)
        return tree[0]['root_provider_uuid'] if tree else None

    def node(self, uuid):
        """Return the NodeProviders of a compute node."""
        tree = {provider['uuid']: provider for provider in self._of_tree(uuid)}
        facts = {name: self._facts(name) for name in tree}
        return NodeProviders(
            uuid,
            {
                name: {'parent_provider_uuid': provider['parent_provider_uuid'], **facts[name][0]}
                for name, provider in tree.items()
            },
            {name: provider['generation'] for name, provider in tree.items()},
            {name: facts[name][1] for name in tree},
        )

    def _of_tree(self, uuid):
        answer = self._get('/resource_providers', in_tree=uuid)
        return _providers(f'the tree of provider {uuid}', answer)

    def _facts(self, uuid):
        """A provider's inventories and traits, and its allocations by consumer."""
        inventories = self.inventories(uuid)
        answer = self._get(f'/resource_providers/{uuid}/traits')
        with _reading(f'the traits of provider {uuid}'):
            traits = _texts(answer['traits'])
        return {'inventories': inventories, 'traits': traits}, self.allocations(uuid)

    def allocations(self, provider_uuid):
        """Return what is allocated from a provider: amounts by consumer."""
        answer = self._get(f'/resource_providers/{provider_uuid}/allocations')
        with _reading(f'the allocations of provider {provider_uuid}'):
            return _allocated(answer)

    def aggregates(self, provider_uuid):
        """Return the UUIDs of the aggregates of a provider."""
        answer = self._get(f'/resource_providers/{provider_uuid}/aggregates')
        with _reading(f'the aggregates of provider {provider_uuid}'):
            return _texts(answer['aggregates'])

    def usages(self, provider_uuid):
        """Return the sums of what is allocated from a provider."""
        answer = self._get(f'/resource_providers/{provider_uuid}/usages')
        with _reading(f'the usages of provider {provider_uuid}'):
            return _amounts(answer['usages'])

    def allocation_candidates(self, query):
        """Return Placement's allocation candidates for a query: parameters by name, with a list
        for a parameter that is repeated."""
        return self._get('/allocation_candidates', **query)

    # Consumers.

    def allocations_of(self, consumer):
        """Return the ConsumerAllocations of a consumer; without providers if it has none."""
        answer = self._get(f'/allocations/{consumer}')
        with _reading(f'the allocations of consumer {consumer}'):
            return ConsumerAllocations(
                _allocated(answer),
                answer.get('consumer_generation'),
                answer.get('project_id'),
                answer.get('user_id'),
            )

    def write(self, wanted, most_s=math.inf, least_s=0.0):
        """Replace the allocations of consumers: all of them, or none.

        ``wanted`` maps consumers to ConsumerAllocations, with the generations that they must
        have. Without providers, what they have is removed. ``most_s`` and ``least_s`` limit how
        long it waits for the answer.
        """
        bodies = {consumer: allocations.body() for consumer, allocations in wanted.items()}
        connect_s, read_s = self._timeouts_s
        limits_s = connect_s, max(least_s, min(read_s, most_s))
        if len(bodies) == 1:
            ((consumer, body),) = bodies.items()
            self._send('PUT', f'/allocations/{consumer}', body, timeouts_s=limits_s)
        else:
            self._send('POST', '/allocations', bodies, timeouts_s=limits_s)

    def put_back(self, wanted):
        """Replace allocations by what the consumers had before, and wait for the answer.

        A removed consumer that is made again has the generation that it had. So a removal that
        Placement did after its caller had given it up could remove what others have written.
        """
        self.write(wanted, least_s=REMOVAL_S)

    def remove(self, consumer, allocations):
        """Remove the allocations of a consumer, if they are still those that were read.

        Returns whether they were; True without a request if there were none.
        """
        if not allocations.providers:
            return True
        try:
            self.write({consumer: dataclasses.replace(allocations, providers={}, mappings={})})
        except errors.PlacementConflict:
            return False
        return True

    # Requests.

    @property
    def _slow_s(self):
        """The timeouts of a request about all providers."""
        connect_s, read_s = self._timeouts_s
        return connect_s, read_s * SLOW

    def _request(self, method, *args, **words):
        with _measured(method):
            return super()._request(method, *args, headers=JSON, **words)

    @staticmethod
    def _words(document):
        return document['errors'][0]['detail']

    def _refusal(self, why, response, what):
        if response.status_code != 409:
            return super()._refusal(why, response, what)
        code = None
        with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):
            code = response.json()['errors'][0].get('code')
        return errors.PlacementConflict(why, code)


@contextlib.contextmanager
def _reading(what):
    """Turn the errors that a malformed answer causes into a PlacementUnavailable that says what
    it is about."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        why = f'its answer about {what} is malformed: {type(error).__name__}: {error}'
        raise errors.PlacementUnavailable(why) from error


def _providers(what, answer):
    """The providers of an answer, with what a ProviderTree needs of each."""
    with _reading(what):
        providers = list(answer['resource_providers'])
    needed = 'uuid', 'root_provider_uuid', 'parent_provider_uuid', 'generation'
    for provider in providers:
        with _reading(f'{what}, {provider!r:.200},'):
            for name in needed:
                provider[name]
    return providers


def _summary(uuid, given):
    """The UUID and the ProviderSummary of a provider."""
    with _reading(f'the summary of provider {uuid}'):
        used = {name: amounts['used'] for name, amounts in given['resources'].items()}
        return uuid, ProviderSummary(_amounts(used), _texts(given['traits']))


def _allocated(answer):
    """The amounts of allocations by consumer, or by provider."""
    allocations = answer['allocations'].items()
    return {uuid: _amounts(allocation['resources']) for uuid, allocation in allocations}


def _amounts(given):
    return {name: operator.index(units) for name, units in given.items()}


def _texts(given):
    if not (isinstance(given, list) and all(isinstance(text, str) for text in given)):
        raise TypeError(f'{given!r:.200} is not a list of texts')
    return given


JSON = {'Accept': 'application/json'}
RESULTS = {
    errors.PlacementConflict: 'conflict',
    errors.PlacementRefused: 'refused',
    errors.PlacementUnavailable: 'unavailable',
}


@contextlib.contextmanager
def _measured(method):
    """Count a request by its result, and its time."""
    begin_s, result = time.monotonic(), 'failed'
    try:
        yield
        result = 'done'
    except tuple(RESULTS) as error:
        result = RESULTS[type(error)]
        raise
    finally:
        PLACEMENT_REQUESTS.add(method, result)
        PLACEMENT_SECONDS.observe(time.monotonic() - begin_s, method)


def client(conf):
    """The PlacementClient of the options in [placement]. Raises BadConfig; sends no request."""
    register_keystone_opts(conf, 'placement')
    # One connection for each request that may be under way.
    connections = conf.placement.in_flight + READERS
    timeouts_s = keystone.timeouts_s(conf.placement)
    return PlacementClient.of_options(
        conf, connections, timeouts_s, default_microversion=MICROVERSION
    )
