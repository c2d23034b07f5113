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
"""The traits that an image requires of its host, for the rules that options enable."""

import types

# Image property: the prefix of its trait, and the values that have one. The traits of virtual
# IOMMUs have other names than Nova expects, so that property never has a trait. Any value of it
# drops the traits of all properties.
OF_PROPERTIES = types.MappingProxyType(
    {
        'hw_architecture': (
            'HW_ARCH',
            'ALPHA ARMV6 ARMV7 ARMV7B AARCH64 CRIS I686 IA64 LM32 M68K MICROBLAZE '
            'MICROBLAZEEL MIPS MIPSEL MIPS64 MIPS64EL OPENRISC PARISC PARISC64 PPC PPCLE PPC64 '
            'PPC64LE PPCEMB S390 S390X SH4 SH4EB SPARC SPARC64 UNICORE32 X86_64 '
            'XTENSA XTENSAEB'.split(),
        ),
        'hw_emulation_architecture': (
            'COMPUTE_ARCH',
            'AARCH64 PPC64LE MIPSEL S390X RISCV64 X86_64'.split(),
        ),
        'hw_cdrom_bus': (
            'COMPUTE_STORAGE_BUS',
            'FDC IDE LXC SATA SCSI USB VIRTIO UML XEN'.split(),
        ),
        'hw_disk_bus': ('COMPUTE_STORAGE_BUS', 'FDC IDE LXC SATA SCSI USB VIRTIO UML XEN'.split()),
        'hw_video_model': (
            'COMPUTE_GRAPHICS_MODEL',
            'BOCHS CIRRUS GOP NONE QXL VGA VIRTIO VMVGA XEN'.split(),
        ),
        'hw_vif_model': (
            'COMPUTE_NET_VIF_MODEL',
            'E1000 E1000E IGB LAN9118 NETFRONT NE2K_PCI PCNET RTL8139 SPAPR_VLAN SRIOV VIRTIO '
            'VMXNET VMXNET3'.split(),
        ),
        'hw_viommu_model': ('COMPUTE_VIOMMU', ()),
    }
)
FORMATS = frozenset('AKI AMI ARI ISO PLOOP QCOW2 RAW VDI VHD VHDX VMDK'.split())


def of_format(disk_format):
    """Return the trait of hosts that can run images of a disk format; None: the format has no
    trait."""
    word = (disk_format or '').upper()
    return f'COMPUTE_IMAGE_TYPE_{word}' if word in FORMATS else None


def of_properties(properties):
    """Return the traits that an image's properties require of a host; none if one property is
    unknown."""
    traits = set()
    for name, (prefix, words) in OF_PROPERTIES.items():
        if properties.get(name) is not None:
            word = str(properties[name]).replace('-', '_').upper()
            if word not in words:
                return frozenset()
            traits.add(f'{prefix}_{word}')
    return frozenset(traits)


def mask(hosts, traits):
    """Return which rows have all of the traits."""
    fits = True
    for trait in traits:
        fits = fits & hosts.has_trait(trait)
    return fits


def why(hosts, traits, rows):
    """Return a text with the traits that the rows lack."""
    missing = [trait for trait in sorted(traits) if not hosts.has_trait(trait)[rows].all()]
    return f'{"the host lacks" if len(rows) == 1 else "these hosts lack"} {", ".join(missing)}'
