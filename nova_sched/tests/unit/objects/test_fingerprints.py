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

"""No object changes by accident: version and fields of each are pinned by a hash."""

from oslo_versionedobjects import fixture

from nova_sched.objects import object_io
from nova_sched.tests.rows import each

PINNED = {
    'Aggregate': '1.3-aee71ed691f4afd543526b0a0ef2dafc',
    'AggregateList': '1.3-15ecf022a68ddbb8c2a6739cfc9f8f5e',
    'Candidate': '1.0-666e90942a4aa8745a08d4c3dda6ecf7',
    'CellMapping': '1.1-2314bbc9f0b268f7cfb993c2c0f5f773',
    'ClaimInfo': '1.3-851019f2b3987e04934833997b9e7352',
    'ComputeNode': '1.19-03e741b2faf4fda329531469327a8a0d',
    'ComputeNodeList': '1.17-15ecf022a68ddbb8c2a6739cfc9f8f5e',
    'Destination': '1.4-3b440d29459e2c98987ad5b25ad1cb2c',
    'Flavor': '1.2-f204e50207d1e747ea1e71b1eb392d5e',
    'GroupMember': '1.0-838d1d91194de38172c33144e1d84ce0',
    'GroupMove': '1.0-5e752b46d414877476a60111b5e23a32',
    'HVSpec': '1.2-de06bcec472a2f04966b855a49c46b41',
    'ImageMeta': '1.8-642d1b2eb3e880a367f37d72dd76162d',
    'ImageMetaProps': '1.44-282432fea0bd8423a8c1d383185f2094',
    'Instance': '2.8-961d874c6db32bb36495116bb7a2780c',
    'InstanceGroup': '1.11-cd1a5e6c430877a543a1229efd9264f2',
    'InstanceList': '2.6-15ecf022a68ddbb8c2a6739cfc9f8f5e',
    'InstanceNUMACell': '1.6-25d9120d83a18356f4146f2a6fe2cc8d',
    'InstanceNUMATopology': '1.3-b7b14056ebcb03f2f406310ff454f9a9',
    'InstancePCIRequest': '1.4-b27808ae189699df27f8f5b908b6393e',
    'InstancePCIRequests': '1.1-3928680ff73c1b9e8a1d15042f6c8287',
    'NUMACell': '1.5-2592de3c926a7840d763bcc85f81afa7',
    'NUMAPagesTopology': '1.1-edab9fa2dc43c117a38d600be54b4542',
    'NUMATopology': '1.2-c63fad38be73b6afd04715c9c1b29220',
    'NUMATopologyLimits': '1.1-4235c5da7a76c7e36075f0cd2f5cf922',
    'NetworkMetadata': '1.0-2cb8d21b34f87b0261d3e1d1ae5cf218',
    'NetworkRequest': '1.3-3a815ea3df7defa61e0b894dee5288ba',
    'NetworkRequestList': '1.1-15ecf022a68ddbb8c2a6739cfc9f8f5e',
    'PciDevicePool': '1.1-3f5ddc3ff7bfa14da7f6c7e9904cc000',
    'PciDevicePoolList': '1.1-15ecf022a68ddbb8c2a6739cfc9f8f5e',
    'QueueJob': '1.1-4c948c0a9b41c0e6b395897956b6027d',
    'QueueResult': '1.0-4cba877243c454ee240a01afe6526081',
    'RequestGroup': '1.3-0458d350a8ec9d0673f9be5640a990ce',
    'RequestLevelParams': '1.1-3a718a0ae0bfdec669e7108631b3f313',
    'RequestSpec': '1.15-94298098bfe6e9f5615801c50db966c9',
    'SchedulerLimits': '1.0-249c4bd8e62a9b327b7026b7f19cc641',
    'SchedulerRetries': '1.1-3c9c8b16143ebbb6ad7030e999d14cc0',
    'SecurityGroup': '1.2-206cebf8a457fe3c166e2c24e9651346',
    'SecurityGroupList': '1.1-15ecf022a68ddbb8c2a6739cfc9f8f5e',
    'Selection': '1.1-548e3c2f04da2a61ceaf9c4e1589f264',
    'Service': '1.22-d64bde0af1ee248c2763351641286f60',
    'TopGroup': '1.0-56df0d1e2d52b27197ffe8b8064fda02',
    'VirtCPUTopology': '1.0-fc694de72e20298f7c6bab1083fd4563',
}
FOUND = fixture.ObjectVersionChecker(
    {name: [cls] for name, cls in object_io.CLASSES.items()}
).get_hashes()


@each('name', sorted(PINNED.keys() | FOUND.keys()))
def test_an_object_is_as_it_was(name):
    assert FOUND.get(name) == PINNED.get(name), (
        f'{name} has changed. An object of Nova changes only as Nova changes it. '
        'If that is what happened, raise its VERSION, '
        f'and pin {FOUND.get(name)} here.'
    )
