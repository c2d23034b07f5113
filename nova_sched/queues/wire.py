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
"""Jobs and results as the bytes of a message, and back: JSON of their primitives."""

import json
from typing import Any

from nova_sched import errors, objects
from nova_sched.objects.job import DELETE, QueueJob, QueueResult


def to_bytes(message: QueueJob | QueueResult) -> bytes:
    """Returns the body of a message."""
    return json.dumps(message.obj_to_primitive(), separators=(',', ':')).encode()


def read_job(body: bytes) -> QueueJob:
    """Returns the job of a message's body, with every field set.

    Raises errors.Invalid for anything else: MalformedObject, or IncompatibleObject for an unknown
    major version.
    """
    return _whole_job(_read(body, QueueJob))


def read_result(body: bytes) -> QueueResult:
    """Returns the result of a message's body, with every field of it and of its job set.

    Raises as ``read_job``.
    """
    result = _whole(_read(body, QueueResult))
    _whole_job(result.job)
    return result


def _read(body: bytes, kind: type) -> Any:
    try:
        primitive = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise errors.MalformedObject(kind.__name__, f'it is no JSON: {error!s:.100}') from None
    found = objects.from_primitive(primitive)
    if not isinstance(found, kind):
        raise errors.MalformedObject(kind.__name__, 'it is something else')
    return found


def _whole_job(job: QueueJob) -> QueueJob:
    _whole(job)
    if job.spec is None and job.kind != DELETE:
        raise errors.MalformedObject('QueueJob.spec', f'a job of the kind {job.kind} needs one')
    return job


def _whole(message: Any) -> Any:
    """Returns the message with null for missing fields; raises MalformedObject if one is
    required."""
    for name, field in type(message).fields.items():
        if name in message:
            continue
        if not field.nullable:
            raise errors.MalformedObject(f'{message.obj_name()}.{name}', 'it is missing')
        setattr(message, name, None)
    return message
