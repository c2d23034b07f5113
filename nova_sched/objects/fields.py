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

import json
import re
import reprlib
import uuid

from oslo_versionedobjects import fields
from oslo_versionedobjects.fields import (
    BaseEnumField,
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
    IPV4AddressField,
    IPV6AddressField,
    ListOfDictOfNullableStringsField,
    ListOfIntegersField,
    ListOfListsOfStringsField,
    ListOfObjectsField,
    ListOfSetsOfIntegersField,
    ListOfStringsField,
    ObjectField,
    SensitiveStringField,
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


class ResourceClass(fields.StringPattern):
    """The name of a resource class, such as VCPU or CUSTOM_GPU."""

    PATTERN = r'^[A-Z0-9_]+$'
    FORM = re.compile(PATTERN)

    def coerce(self, obj, attr, value):
        if isinstance(value, str) and self.FORM.fullmatch(value):
            return value
        raise ValueError('a resource class is required: capitals, digits and underscores')


class ResourceClassField(fields.AutoTypedField):
    AUTO_TYPE = ResourceClass()


class NetworkModel(fields.FieldType):
    """Network information of an instance, kept as JSON text: only compute nodes read it."""

    def coerce(self, obj, attr, value):
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return json.dumps(value)
        raise ValueError('network information is required, as a list or as JSON text')


class NetworkModelField(fields.AutoTypedField):
    AUTO_TYPE = NetworkModel()


class Words(fields.Enum):
    """A string that is one of ``ALL``, a text of words.

    ``ALIASES`` maps other spellings to these words. With ``ANY_CASE`` case is ignored.
    """

    ALL = ''
    ALIASES: dict[str, str] = {}
    ANY_CASE = False

    def __init__(self):
        super().__init__(valid_values=tuple(self.ALL.split()))

    @classmethod
    def canonical(cls, word):
        """Returns the canonical spelling; None and unknown words are returned unchanged."""
        if isinstance(word, str):
            word = word.lower() if cls.ANY_CASE else word
            word = cls.ALIASES.get(word, word)
        return word

    def coerce(self, obj, attr, value):
        word = self.canonical(value)
        if word not in self._valid_values:
            raise ValueError(f'{reprlib.repr(value)} is none of: {self.ALL}')
        return word


def enum_field(name, words):
    """A field class for an enumeration."""
    return type(name, (fields.BaseEnumField,), {'AUTO_TYPE': words()})


class Architecture(Words):
    ANY_CASE = True
    ALIASES = {'i386': 'i686', 'i486': 'i686', 'i586': 'i686', 'amd64': 'x86_64'}
    ALL = (
        'alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips '
        'mipsel mips64 mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 '
        's390x sh4 sh4eb sparc sparc64 unicore32 x86_64 xtensa xtensaeb'
    )


class BlockDeviceDestinationType(Words):
    ALL = 'local volume'


class BlockDeviceEncryptionFormatType(Words):
    ALL = 'plain luks luksv2'


class BlockDeviceSourceType(Words):
    ALL = 'blank image snapshot volume'


class BlockDeviceType(Words):
    ALL = 'cdrom disk floppy fs lun'


class CPUAllocationPolicy(Words):
    ALL = 'dedicated shared mixed'


class CPUEmulatorThreadsPolicy(Words):
    ALL = 'share isolate'


class CPUFeaturePolicy(Words):
    ALL = 'disable forbid force optional require'


class CPUMatch(Words):
    ALL = 'exact minimum strict'


class CPUMode(Words):
    ALL = 'custom host-model host-passthrough'


class CPUThreadAllocationPolicy(Words):
    ALL = 'prefer isolate require'


class ConfigDrivePolicy(Words):
    ALL = 'optional mandatory'


class DiskBus(Words):
    ALL = 'fdc ide sata scsi usb virtio xen lxc uml'


class FirmwareType(Words):
    ALL = 'uefi bios'


class HVType(Words):
    ANY_CASE = True
    ALIASES = {'xapi': 'xen'}
    ALL = (
        'baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu '
        'test uml vbox vz vmware xen zvm prsm'
    )


class ImageSignatureHashType(Words):
    ALL = 'SHA-224 SHA-256 SHA-384 SHA-512'


class ImageSignatureKeyType(Words):
    ALL = (
        'DSA ECC_SECP384R1 ECC_SECP521R1 ECC_SECT409K1 ECC_SECT409R1 ECC_SECT571K1 ECC_SECT571R1 '
        'RSA-PSS'
    )


class InputBus(Words):
    ALL = 'usb virtio'


class MaxPhyAddrMode(Words):
    ALL = 'passthrough emulate'


class MemEncryptionModel(Words):
    ALL = 'amd-sev amd-sev-es amd-sev-snp intel-tdx'


class MigrationType(Words):
    ALL = 'migration resize live-migration evacuation'


class MonitorMetricType(Words):
    ALL = (
        'cpu.frequency cpu.user.time cpu.kernel.time cpu.idle.time cpu.iowait.time '
        'cpu.user.percent cpu.kernel.percent cpu.idle.percent cpu.iowait.percent cpu.percent '
        'numa.membw.max numa.membw.current'
    )


class OSType(Words):
    ALL = 'linux windows'


class PCINUMAAffinityPolicy(Words):
    ALL = 'required legacy preferred socket'


class PciDeviceStatus(Words):
    ALL = 'available claimed allocated removed deleted unavailable unclaimable'


class PciDeviceType(Words):
    ALL = 'type-PCI type-PF type-VF vdpa'


class PointerModelType(Words):
    ALL = 'usbtablet'


class RNGModel(Words):
    ALL = 'virtio'


class SCSIModel(Words):
    ANY_CASE = True
    ALIASES = {'lsilogicsas': 'lsisas1068', 'paravirtual': 'vmpvscsi'}
    ALL = 'buslogic ibmvscsi lsilogic lsisas1068 lsisas1078 virtio-scsi vmpvscsi'


class SecureBoot(Words):
    ALL = 'required disabled optional'


class SoundModelType(Words):
    ALL = 'sb16 es1370 pcspk ac97 ich6 ich9 usb virtio'


class TPMModel(Words):
    ALL = 'tpm-tis tpm-crb'


class TPMVersion(Words):
    ALL = '1.2 2.0'


class USBControllerModelType(Words):
    ALL = 'nec-xhci none qemu-xhci'


class VIFModel(Words):
    ANY_CASE = True
    ALIASES = {
        'virtuale1000': 'e1000',
        'virtuale1000e': 'e1000e',
        'virtualpcnet32': 'pcnet',
        'virtualsriovethernetcard': 'sriov',
        'virtualvmxnet': 'vmxnet',
        'virtualvmxnet3': 'vmxnet3',
    }
    ALL = (
        'virtio ne2k_pci pcnet rtl8139 e1000 e1000e netfront spapr-vlan lan9118 sriov vmxnet '
        'vmxnet3 igb'
    )


class VIOMMUModel(Words):
    ALL = 'intel smmuv3 virtio auto'


class VMMode(Words):
    ANY_CASE = True
    ALIASES = {'hv': 'hvm', 'pv': 'xen', 'baremetal': 'hvm'}
    ALL = 'hvm xen uml exe'


class VideoModel(Words):
    ALL = 'cirrus qxl vga vmvga xen virtio gop none bochs'


class WatchdogAction(Words):
    ALL = 'none pause poweroff reset disabled'


ArchitectureField = enum_field('ArchitectureField', Architecture)
BlockDeviceDestinationTypeField = enum_field(
    'BlockDeviceDestinationTypeField', BlockDeviceDestinationType
)
BlockDeviceEncryptionFormatTypeField = enum_field(
    'BlockDeviceEncryptionFormatTypeField', BlockDeviceEncryptionFormatType
)
BlockDeviceSourceTypeField = enum_field('BlockDeviceSourceTypeField', BlockDeviceSourceType)
BlockDeviceTypeField = enum_field('BlockDeviceTypeField', BlockDeviceType)
CPUAllocationPolicyField = enum_field('CPUAllocationPolicyField', CPUAllocationPolicy)
CPUEmulatorThreadsPolicyField = enum_field(
    'CPUEmulatorThreadsPolicyField', CPUEmulatorThreadsPolicy
)
CPUFeaturePolicyField = enum_field('CPUFeaturePolicyField', CPUFeaturePolicy)
CPUMatchField = enum_field('CPUMatchField', CPUMatch)
CPUModeField = enum_field('CPUModeField', CPUMode)
CPUThreadAllocationPolicyField = enum_field(
    'CPUThreadAllocationPolicyField', CPUThreadAllocationPolicy
)
ConfigDrivePolicyField = enum_field('ConfigDrivePolicyField', ConfigDrivePolicy)
DiskBusField = enum_field('DiskBusField', DiskBus)
FirmwareTypeField = enum_field('FirmwareTypeField', FirmwareType)
HVTypeField = enum_field('HVTypeField', HVType)
ImageSignatureHashTypeField = enum_field('ImageSignatureHashTypeField', ImageSignatureHashType)
ImageSignatureKeyTypeField = enum_field('ImageSignatureKeyTypeField', ImageSignatureKeyType)
InputBusField = enum_field('InputBusField', InputBus)
MaxPhysAddrModeField = enum_field('MaxPhysAddrModeField', MaxPhyAddrMode)
MemEncryptionModelField = enum_field('MemEncryptionModelField', MemEncryptionModel)
MigrationTypeField = enum_field('MigrationTypeField', MigrationType)
MonitorMetricTypeField = enum_field('MonitorMetricTypeField', MonitorMetricType)
OSTypeField = enum_field('OSTypeField', OSType)
PCINUMAAffinityPolicyField = enum_field('PCINUMAAffinityPolicyField', PCINUMAAffinityPolicy)
PciDeviceStatusField = enum_field('PciDeviceStatusField', PciDeviceStatus)
PciDeviceTypeField = enum_field('PciDeviceTypeField', PciDeviceType)
PointerModelField = enum_field('PointerModelField', PointerModelType)
RNGModelField = enum_field('RNGModelField', RNGModel)
SCSIModelField = enum_field('SCSIModelField', SCSIModel)
SecureBootField = enum_field('SecureBootField', SecureBoot)
SoundModelField = enum_field('SoundModelField', SoundModelType)
TPMModelField = enum_field('TPMModelField', TPMModel)
TPMVersionField = enum_field('TPMVersionField', TPMVersion)
USBControllerModelField = enum_field('USBControllerModelField', USBControllerModelType)
VIFModelField = enum_field('VIFModelField', VIFModel)
VIOMMUModelField = enum_field('VIOMMUModelField', VIOMMUModel)
VMModeField = enum_field('VMModeField', VMMode)
VideoModelField = enum_field('VideoModelField', VideoModel)
WatchdogActionField = enum_field('WatchdogActionField', WatchdogAction)
