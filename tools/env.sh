# Sourced by the scripts here: Debian packages, and the virtual environment in .venv.
# Sets `root` (the checkout) and `venv`; defines install_packages and make_venv.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1
# What is on this machine is not asked through a proxy.
export no_proxy=${no_proxy:+$no_proxy,}127.0.0.1,localhost
export NO_PROXY=$no_proxy
# Our texts are UTF-8, in whichever locale.
export PYTHONUTF8=1
export SKIP_GENERATE_AUTHORS=1 SKIP_WRITE_GIT_CHANGELOG=1
# pbr asks git for the version. A tree that is no clone, or one that git does not trust, still installs.
git -C "$root" rev-parse --quiet --verify HEAD >/dev/null 2>&1 || export PBR_VERSION=${PBR_VERSION:-0.0.1.dev0}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# As root, with sudo if need be; sudo may ask for a password only at a terminal.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif [ -t 0 ]; then sudo "$@"
    else sudo -n "$@"
    fi
}

# The packages of bindep.txt that are not installed; with "test", also those for the tests.
missing_packages() {
    local name tags
    sed -n 's/^\([a-z0-9][a-z0-9.+-]*\) \[\(.*\)\]$/\1 \2/p' "$root/bindep.txt" | while read -r name tags; do
        case " $tags " in *' test '*) [ "${1:-}" = test ] || continue ;; esac
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s ' "$name"
    done
}

# Install what is missing. Services stay down: the tests start private servers.
install_packages() {
    command -v dpkg-query >/dev/null || { say 'no Debian here: install what bindep.txt lists yourself'; return 0; }
    local missing policy=/usr/sbin/policy-rc.d apt
    missing=$(missing_packages "${1:-}")
    [ -n "$missing" ] || return 0
    say "installing Debian packages: $missing"
    apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
    as_root "${apt[@]}" update </dev/null || say 'apt-get update failed; trying with the lists at hand'
    local placed=
    if ! [ -e "$policy" ]; then
        placed=yes
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
    fi
    local status=0
    # Never at the price of another package: somebody may run a server of his own here.
    # shellcheck disable=SC2086 # one word for each package
    as_root "${apt[@]}" -y --no-install-recommends --no-remove install $missing </dev/null >&2 || status=$?
    [ -z "$placed" ] || as_root rm -f "$policy"
    [ "$status" -eq 0 ] || die "apt-get could not install: $missing"
}

# A Python that is new enough and can make virtual environments; $PYTHON, if set, is the only candidate.
find_python() {
    local candidate candidates=(python3 python3.13 python3.12 python3.11 /usr/bin/python3)
    candidates+=("${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.1[1-9].*/bin/python3)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "no Python 3.11 or later with venv among: ${candidates[*]}"
}

# Make .venv hold the package and what starts the demonstration's private RabbitMQ; with "test" all that the gate needs.
# Does nothing while it already does.
make_venv() {
    local what=(-e "$root" pytest trustme) profile=${1:-demo} stamp
    [ "$profile" = demo ] || what=(-e "$root[postgresql,mysql,openstackclient,plots,tracing]" -r "$root/test-requirements.txt")
    stamp=$(cd "$root" && cat setup.cfg pyproject.toml constraints.txt requirements.txt test-requirements.txt | cksum)
    stamp="$root ${PYTHON:-} $stamp"
    "$venv/bin/python" -c '' 2>/dev/null || rm -rf "$venv"
    if [ "$(cat "$venv/.made-for-$profile" 2>/dev/null)" = "$stamp" ]; then return; fi
    local python
    python=$(find_python)
    say "making .venv with $("$python" -V) (a minute or two, once)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install -q -c "$root/constraints.txt" "${what[@]}" </dev/null
    printf '%s\n' "$stamp" | tee "$venv/.made-for-demo" > "$venv/.made-for-$profile"
}
