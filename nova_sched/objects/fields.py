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

"""The types of fields, the values that enumerated fields accept, and the older names for some of
them."""
# ruff: noqa: F401 - the classes are imported for use by other modules

import re
import reprlib
import uuid

from oslo_versionedobjects import fields
from oslo_versionedobjects.fields import (
    BooleanField,
    DateTimeField,
    DictOfIntegersField,
    DictOfListOfStringsField,
    DictOfNullableStringsField,
    DictOfStringsField,
    DictProxyField,
    FlexibleBooleanField,
    FloatField,
    IntegerField,
    IPAddressField,
    ListOfDictOfNullableStringsField,
    ListOfIntegersField,
    ListOfListsOfStringsField,
    ListOfObjectsField,
    ListOfSetsOfIntegersField,
    ListOfStringsField,
    ObjectField,
    SetOfIntegersField,
    SetOfStringsField,
    StringField,
    VersionPredicateField,
)


class UUID(fields.UUID):
    """A UUID as text. Unlike oslo's type it refuses invalid values, and is fast and
    thread-safe."""

    FORM = re.compile(fields.UUID.PATTERN)

    def coerce(self, obj, attr, value):
        if isinstance(value, uuid.UUID):
            return str(value)
        if isinstance(value, str) and self.FORM.fullmatch(value):
            return value
        raise ValueError('a UUID is required')


class UUIDField(fields.UUIDField):
    AUTO_TYPE = UUID()


class ListOfUUIDField(fields.ListOfUUIDField):
    AUTO_TYPE = fields.List(UUID())


class Words(fields.Enum):
    """A string that is one of ``WORDS``.

    ``ALIASES`` maps other spellings to these words. With ``ANY_CASE`` case is ignored.
    """

    WORDS: tuple[str, ...] = ()
    ALIASES: dict[str, str] = {}
    ANY_CASE = False

    def __init__(self):
        super().__init__(valid_values=self.WORDS)

    @classmethod
    def canonical(cls, word):
        """Return the canonical spelling; None and unknown words are returned unchanged."""
        if isinstance(word, str):
            word = word.lower() if cls.ANY_CASE else word
            word = cls.ALIASES.get(word, word)
        return word

    def coerce(self, obj, attr, value):
        word = self.canonical(value)
        if word not in self._valid_values:
            raise ValueError(f'{reprlib.repr(value)} is none of: {" ".join(self.WORDS)}')
        return word


def enum_field(name, words, aliases=None, any_case=False):
    """Return a field class for an enumeration: its type is named ``name``, and ``words`` is a text
    of its words.

    ``aliases`` maps other spellings to them. With ``any_case`` case is ignored.
    """
    attributes = {'WORDS': tuple(words.split()), 'ALIASES': aliases or {}, 'ANY_CASE': any_case}
    kind = type(name, (Words,), attributes)
    return type(f'{name}Field', (fields.BaseEnumField,), {'AUTO_TYPE': kind()})


ArchitectureField = enum_field(
    'Architecture',
    'alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips '
    'mipsel mips64 mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 '
    's390x sh4 sh4eb sparc sparc64 unicore32 x86_64 xtensa xtensaeb',
    aliases={'i386': 'i686', 'i486': 'i686', 'i586': 'i686', 'amd64': 'x86_64'},
    any_case=True,
)
BlockDeviceEncryptionFormatTypeField = enum_field(
    'BlockDeviceEncryptionFormatType', 'plain luks luksv2'
)
BlockDeviceTypeField = enum_field('BlockDeviceType', 'cdrom disk floppy fs lun')
CPUAllocationPolicyField = enum_field('CPUAllocationPolicy', 'dedicated shared mixed')
CPUEmulatorThreadsPolicyField = enum_field('CPUEmulatorThreadsPolicy', 'share isolate')
CPUThreadAllocationPolicyField = enum_field('CPUThreadAllocationPolicy', 'prefer isolate require')
ConfigDrivePolicyField = enum_field('ConfigDrivePolicy', 'optional mandatory')
DiskBusField = enum_field('DiskBus', 'fdc ide sata scsi usb virtio xen lxc uml')
FirmwareTypeField = enum_field('FirmwareType', 'uefi bios')
HVTypeField = enum_field(
    'HVType',
    'baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu '
    'test uml vbox vz vmware xen zvm prsm',
    aliases={'xapi': 'xen'},
    any_case=True,
)
ImageSignatureHashTypeField = enum_field(
    'ImageSignatureHashType', 'SHA-224 SHA-256 SHA-384 SHA-512'
)
ImageSignatureKeyTypeField = enum_field(
    'ImageSignatureKeyType',
    'DSA ECC_SECP384R1 ECC_SECP521R1 ECC_SECT409K1 ECC_SECT409R1 ECC_SECT571K1 ECC_SECT571R1 '
    'RSA-PSS',
)
InputBusField = enum_field('InputBus', 'usb virtio')
MaxPhysAddrModeField = enum_field('MaxPhyAddrMode', 'passthrough emulate')
MemEncryptionModelField = enum_field(
    'MemEncryptionModel', 'amd-sev amd-sev-es amd-sev-snp intel-tdx'
)
OSTypeField = enum_field('OSType', 'linux windows')
PCINUMAAffinityPolicyField = enum_field(
    'PCINUMAAffinityPolicy', 'required legacy preferred socket'
)
PointerModelField = enum_field('PointerModelType', 'usbtablet')
RNGModelField = enum_field('RNGModel', 'virtio')
SCSIModelField = enum_field(
    'SCSIModel',
    'buslogic ibmvscsi lsilogic lsisas1068 lsisas1078 virtio-scsi vmpvscsi',
    aliases={'lsilogicsas': 'lsisas1068', 'paravirtual': 'vmpvscsi'},
    any_case=True,
)
SecureBootField = enum_field('SecureBoot', 'required disabled optional')
SoundModelField = enum_field('SoundModelType', 'sb16 es1370 pcspk ac97 ich6 ich9 usb virtio')
TPMModelField = enum_field('TPMModel', 'tpm-tis tpm-crb')
TPMVersionField = enum_field('TPMVersion', '1.2 2.0')
USBControllerModelField = enum_field('USBControllerModelType', 'nec-xhci none qemu-xhci')
VIFModelField = enum_field(
    'VIFModel',
    'virtio ne2k_pci pcnet rtl8139 e1000 e1000e netfront spapr-vlan lan9118 sriov vmxnet '
    'vmxnet3 igb',
    aliases={
        'virtuale1000': 'e1000',
        'virtuale1000e': 'e1000e',
        'virtualpcnet32': 'pcnet',
        'virtualsriovethernetcard': 'sriov',
        'virtualvmxnet': 'vmxnet',
        'virtualvmxnet3': 'vmxnet3',
    },
    any_case=True,
)
VIOMMUModelField = enum_field('VIOMMUModel', 'intel smmuv3 virtio auto')
VMModeField = enum_field(
    'VMMode',
    'hvm xen uml exe',
    aliases={'hv': 'hvm', 'pv': 'xen', 'baremetal': 'hvm'},
    any_case=True,
)
VideoModelField = enum_field('VideoModel', 'cirrus qxl vga vmvga xen virtio gop none bochs')
WatchdogActionField = enum_field('WatchdogAction', 'none pause poweroff reset disabled')
