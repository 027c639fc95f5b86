"""Checks of the environment: every layer that can win, which one does, and what is stale or foreign in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from elometer.checks import layers
from elometer.checks.context import Context
from elometer.checks.engine import Check, Result, passed, unknown
from elometer.checks.layers import Layer, Setting
from elometer.checks.subjects import host_of, is_loopback, profile_subjects
from elometer.core.text import gettext as _
from elometer.core.urls import without_userinfo

HOME_OF_CLAUDE = "anthropic.com"
HOMES_OF_OPENAI = ("openai.com", "chatgpt.com")


def shown(setting: Setting) -> str:
    """A value as evidence: secrets by their length only, URLs without user names."""
    if layers.is_secret(setting.name):
        return (
            _("({n} characters, not shown)").format(n=len(setting.value)) if setting.value else _("(empty)")
        )
    if setting.name.endswith("_URL"):
        return without_userinfo(setting.value)
    return setting.value if setting.value else _("(empty)")


def layer_lines(context: Context, found: list[Setting], *, command: bool = True) -> list[str]:
    """One line a layer, the winner marked, with the command that shows it."""
    lines = []
    for setting in found:
        mark = "→" if setting is found[-1] else " "
        place = context.shown(setting.layer.path) if setting.layer.path else setting.layer.name
        lines.append(f"{mark} {setting.name} = {shown(setting)} ({place})")
    if command and found:
        lines.append(f"$ {found[-1].layer.command}")
    return lines


def claude_takes_what_you_set(context: Context) -> Result:
    """A settings file beats the shell: an exported value that differs does nothing."""
    lines, shadowed = [], []
    for name in (layers.CLAUDE_URL, *layers.CLAUDE_KEYS, *layers.CLAUDE_MODELS):
        found = layers.settings_of(layers.claude_layers(context), name)
        lines += layer_lines(context, found, command=False)
        if len(found) > 1 and found[0].layer.path is None and found[0].value != found[-1].value:
            shadowed.append(found)
    if not shadowed:
        return passed(*(lines or [_("no variable of Claude Code is set")]))
    winning = shadowed[0][-1]
    assert winning.layer.path is not None
    return Result(
        "warn",
        (*lines, f"$ {winning.layer.command}"),
        _("{names}: the value in your shell is ignored, {where} wins.").format(
            names=", ".join(found[0].name for found in shadowed), where=context.shown(winning.layer.path)
        ),
        " && ".join(f"unset {found[0].name}" for found in shadowed)
        + "; "
        + _("or start the client with 'elometer profile exec NAME'"),
    )


def project_does_not_redirect(context: Context) -> Result:
    """A repository's settings can send the key to its own URL; -p asks no question first."""
    layers_here = layers.claude_layers(context)
    project = [
        layer
        for layer in layers_here
        if layer.path is not None
        and layer.path.is_relative_to(context.folder / ".claude")
        and context.folder / ".claude" != context.claude_folder
    ]
    if not project:
        return passed(_("no client settings in {folder}").format(folder=context.shown(context.folder)))
    for layer in project:
        redirecting = [name for name in (layers.CLAUDE_URL, *layers.CLAUDE_KEYS) if name in layer.values]
        helper = "apiKeyHelper" in layer.document
        if redirecting or helper:
            assert layer.path is not None
            return Result(
                "warn",
                tuple(
                    f"{context.shown(layer.path)}: {name} = {shown(Setting(layer, name, layer.values[name]))}"
                    for name in redirecting
                )
                or (f"{context.shown(layer.path)}: apiKeyHelper",),
                _("The settings of this folder decide where Claude Code sends the key."),
                _(
                    "Look at {path}; start the client with 'elometer profile exec NAME', which ignores it."
                ).format(path=context.shown(layer.path)),
            )
    return passed(*(context.shown(layer.path) for layer in project if layer.path))


def client_files_parse(context: Context) -> Result:
    """A client ignores a whole settings file with a comment in it; Codex refuses to start."""
    files = [layer for layer in layers.claude_layers(context) if layer.path is not None]
    files += [
        layer
        for layer in (layers.claude_state(context), layers.codex_config(context), layers.codex_auth(context))
        if layer is not None
    ]
    broken = [layer for layer in files if layer.problem]
    names = [context.shown(layer.path) for layer in files if layer.path]
    if not broken:
        return passed(*(names or [_("no client files")]))
    first = broken[0]
    assert first.path is not None
    return Result(
        "warn",
        tuple(f"{context.shown(layer.path)}: {layer.problem}" for layer in broken if layer.path),
        _("{path} does not parse, so the client does not use it.").format(path=context.shown(first.path)),
        _("Correct the place that the evidence names; comments and trailing commas are not JSON."),
    )


def no_login_goes_abroad(context: Context) -> Result:
    """A stored login, key or helper is sent to whatever base URL is set."""
    claude = layers.winner(layers.claude_layers(context), layers.CLAUDE_URL)
    lines = list(_logins(context))
    foreign = claude is not None and claude.value and HOME_OF_CLAUDE not in claude.value
    if not lines:
        return passed(_("no stored login, helper or key of a client"))
    own_key = any(
        (found := layers.winner(layers.claude_layers(context), name)) is not None and found.value
        for name in layers.CLAUDE_KEYS
    )
    always = [line for line in lines if "primaryApiKey" in line or "apiKeyHelper" in line]
    codex = [line for line in lines if "requires_openai_auth" in line]
    if codex or (foreign and (always or not own_key)):
        return Result(
            "warn",
            (*lines, *layer_lines(context, [claude] if claude and foreign else [])),
            _("A login or key of your own account is sent to another host's base URL."),
            _("Start the client with 'elometer profile exec NAME': it has a private configuration folder."),
        )
    return passed(*lines)


def _logins(context: Context) -> Iterator[str]:
    state = layers.claude_state(context)
    if state is not None and state.document.get("primaryApiKey"):
        yield f"{context.shown(context.claude_state)}: primaryApiKey"
    if (context.claude_folder / ".credentials.json").exists():
        yield context.shown(context.claude_folder / ".credentials.json")
    if context.environ.get("CLAUDE_CODE_OAUTH_TOKEN"):
        yield _("shell") + ": CLAUDE_CODE_OAUTH_TOKEN"
    for layer in layers.claude_layers(context):
        if layer.path is not None and layer.document.get("apiKeyHelper"):
            yield f"{context.shown(layer.path)}: apiKeyHelper"
    config = layers.codex_config(context)
    if config is not None and config.path is not None:
        for name, table in _providers(config.document):
            host = host_of(str(table.get("base_url", "")))
            if table.get("requires_openai_auth") is True and host and not host.endswith(HOMES_OF_OPENAI):
                yield f"{context.shown(config.path)} [model_providers.{name}]: requires_openai_auth → {host}"


def _providers(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    providers = document.get("model_providers")
    if isinstance(providers, dict):
        yield from ((name, table) for name, table in providers.items() if isinstance(table, dict))


def codex_takes_what_you_set(context: Context) -> Result:
    """`.env` of Codex's home beats the shell, also for the key."""
    found = layers.codex_layers(context)
    config = layers.codex_config(context)
    names = set(_codex_key_names(config)) | {"OPENAI_API_KEY", "CODEX_API_KEY", "TAOTOKEN_API_KEY"}
    names |= {profile.key_variable for profile in profile_subjects(context) if profile.tool == "codex"}
    lines, shadowed = [], []
    for name in sorted(names):
        settings = layers.settings_of(found, name)
        lines += layer_lines(context, settings, command=False)
        if len(settings) > 1 and settings[0].value != settings[-1].value:
            shadowed.append(settings)
    auth = layers.codex_auth(context)
    if auth is not None and auth.path is not None:
        lines.append(f"  {context.shown(auth.path)}: {', '.join(sorted(map(str, auth.document)))}")
    if not shadowed:
        return passed(*(lines or [_("no variable of Codex is set")]))
    path = shadowed[0][-1].layer.path
    assert path is not None
    return Result(
        "warn",
        (*lines, f"$ {shadowed[0][-1].layer.command}"),
        _("{name}: the value in your shell is ignored, {where} wins.").format(
            name=shadowed[0][0].name, where=context.shown(path)
        ),
        _("Remove the line from {where}, or start with 'elometer profile exec NAME'.").format(
            where=context.shown(path)
        ),
    )


def _codex_key_names(config: Layer | None) -> Iterator[str]:
    if config is not None:
        for _name, table in _providers(config.document):
            if isinstance(name := table.get("env_key"), str):
                yield name


def rc_files_agree(context: Context) -> Result:
    """What a new shell would set, against what this one has: an old value survives until the shell ends."""
    lines, stale = [], []
    for layer, found in layers.rc_layers(context):
        for item in {item.name: item for item in found}.values():  # the last assignment of a file counts
            assert layer.path is not None
            place = f"{context.shown(layer.path)}:{item.line}"
            if item.unset:
                lines.append(f"{place}: unset {item.name}")
                continue
            value = item.value if item.value is not None else ""
            text = shown(Setting(layer, item.name, value)) if item.value is not None else _("(computed)")
            lines.append(f"{place}: {item.name} = {text}")
            if item.value is not None and context.environ.get(item.name, item.value) != item.value:
                stale.append((item.name, place))
    if not stale:
        return passed(*(lines or [_("no start-up file sets a variable of the clients")]))
    name, place = stale[0]
    return Result(
        "warn",
        tuple(lines),
        _("{name} of this shell differs from {place}: one of the two is stale.").format(
            name=name, place=place
        ),
        _("Open a new shell, or: {command}").format(command=f"unset {name}; exec $SHELL -l"),
    )


def openai_variables_fit(context: Context) -> Result:
    """OPENAI_* of the shell reach every OpenAI client that is started from it."""
    found = [
        Setting(layers.shell_layer(context), name, context.environ[name])
        for name in (*layers.OPENAI_VARIABLES, "OPENAI_API_BASE")
        if name in context.environ
    ]
    lines = tuple(f"{setting.name} = {shown(setting)}" for setting in found)
    profiles = [profile for profile in profile_subjects(context) if profile.tool == "openai-compatible"]
    url = context.environ.get("OPENAI_BASE_URL")
    if "OPENAI_API_BASE" in context.environ:
        return Result(
            "warn", lines, _("OPENAI_API_BASE is ignored by today's clients."), "unset OPENAI_API_BASE"
        )
    if url and len(profiles) == 1 and url.rstrip("/") != profiles[0].effective_url:
        return Result(
            "warn",
            (*lines, f"{profiles[0].name} → {profiles[0].effective_url}"),
            _("OPENAI_BASE_URL of the shell is not the profile's URL."),
            f'eval "$(elometer profile env {profiles[0].name})"',
        )
    return passed(*(lines or (_("no variable of OpenAI clients is set"),)))


def no_route_overrides(context: Context) -> Result:
    """CLAUDE_CODE_USE_BEDROCK and its kin send Claude Code past every base URL."""
    found = [
        setting
        for name in layers.CLAUDE_ROUTES
        if (setting := layers.winner(layers.claude_layers(context), name)) is not None
        and setting.value not in ("", "0", "false")
    ]
    if not found:
        return passed(_("no cloud route is switched on"))
    where = found[0].layer.path
    return Result(
        "warn",
        tuple(layer_lines(context, found)),
        _("{name} sends Claude Code to another service, whatever its base URL says.").format(
            name=found[0].name
        ),
        _("Remove {name} from {where}.").format(name=found[0].name, where=context.shown(where))
        if where
        else f"unset {found[0].name}",
    )


def proxy_spares_loopback(context: Context) -> Result:
    """A proxy variable must not catch calls to a gateway on this machine."""
    proxies = [
        name
        for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
        if context.environ.get(name)
    ]
    if not proxies:
        return passed(_("no proxy variable is set"))
    spared = context.environ.get("NO_PROXY", context.environ.get("no_proxy", ""))
    lines = [f"{name} = {without_userinfo(layers.guarded(name, context.environ[name]))}" for name in proxies]
    lines.append(f"NO_PROXY = {spared or _('(not set)')}")
    local = [url for url in _all_urls(context) if is_loopback(url)]
    if local and not any(name in spared for name in ("127.0.0.1", "localhost", "*")):
        host = host_of(local[0])
        return Result(
            "warn",
            tuple(lines),
            _("Calls to {url} would go through the proxy.").format(url=local[0]),
            f"export NO_PROXY={spared + ',' if spared else ''}{host}",
        )
    return passed(*lines)


def _all_urls(context: Context) -> list[str]:
    urls = [context.experiment.base_url] if context.experiment is not None else []
    return urls + [profile.base_url for profile in profile_subjects(context)]


def workspace_is_usable(context: Context) -> Result:
    """The workspace can be written, and is on a disk of this machine with room left."""
    folder = context.workspace
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not os.access(folder, os.W_OK | os.X_OK):
        return Result(
            "fail",
            (context.shown(folder),),
            _("You may not write in the workspace."),
            _("Name another folder: export ELOMETER_HOME=DIR"),
        )
    free = os.statvfs(folder)
    gib = free.f_bavail * free.f_frsize / 2**30
    lines = (f"{context.shown(context.workspace)}: {gib:.1f} GiB free",)
    if gib < 0.5:
        return Result(
            "warn",
            lines,
            _("Less than half a GiB is left for ledgers and samples."),
            _("Free some space or set ELOMETER_HOME to another disk."),
        )
    return passed(*lines)


def store_can_be_read(context: Context) -> Result:
    """profiles.toml parses and its fields make sense."""
    if context.store.problem:
        return Result(
            "fail",
            (context.store.problem,),
            _("The profile store cannot be read."),
            _("Correct the file; elometer did not change it."),
        )
    if context.store.path is None or not context.store.path.exists():
        return unknown(_("there is no profile store yet"))
    return passed(
        _("{path}: {p} profiles, {k} keys").format(
            path=context.shown(context.store.path), p=len(context.store.profiles), k=len(context.store.keys)
        )
    )


CHECKS = (
    Check("environment.store", "environment", "Can the profile store be read?", 0, store_can_be_read),
    Check(
        "environment.claude-code",
        "environment",
        "Does Claude Code use what this shell exports?",
        0,
        claude_takes_what_you_set,
    ),
    Check(
        "environment.codex",
        "environment",
        "Does Codex use what this shell exports?",
        0,
        codex_takes_what_you_set,
    ),
    Check("environment.openai", "environment", "Do OPENAI_* variables fit?", 0, openai_variables_fit),
    Check(
        "environment.startup-files",
        "environment",
        "Does this shell still have what its start-up files set?",
        0,
        rc_files_agree,
    ),
    Check(
        "environment.project",
        "environment",
        "Does this folder leave the clients' target alone?",
        0,
        project_does_not_redirect,
    ),
    Check("environment.files", "environment", "Do the clients' files parse?", 0, client_files_parse),
    Check("environment.login", "environment", "Does no login go to a foreign host?", 0, no_login_goes_abroad),
    Check("environment.route", "environment", "Is no cloud route switched on?", 0, no_route_overrides),
    Check("environment.proxy", "environment", "Are local calls spared by proxies?", 0, proxy_spares_loopback),
    Check("environment.workspace", "environment", "Can the workspace be written?", 0, workspace_is_usable),
)
