"""Settings of the Django part, in reading order; every value comes through ``env``.

required   MQ_SECRET_KEY (or MQ_SECRET_KEY_FILE), DATABASE_URL (or DATABASE_URL_FILE)
optional   VALKEY_URL MQ_DATA_DIR MQ_ENGINE_SOCKET MQ_PORT MQ_BASE_URL MQ_ALLOWED_HOSTS MQ_DEBUG
           MQ_PROCESS MQ_KEY_PEPPER MQ_KEY_PEPPER_FALLBACKS MQ_SECRET_KEY_FALLBACKS MQ_TRUST_PROXY
           MQ_LOG_LEVEL MQ_REDRIVE_RATE_DEFAULT MQ_REDRIVE_RATE_MAX MQ_TICK_MS
           MQ_EMAIL_URL MQ_EMAIL_FROM MQ_WEBHOOK_NETWORKS
           MQ_SIGN_UP MQ_FAILED_KEYS_MAX MQ_AUDIT_DAYS
           MQ_OIDC_ISSUER MQ_OIDC_CLIENT_ID MQ_OIDC_CLIENT_SECRET MQ_OIDC_NAME
           MQ_SOCKETS_MAX MQ_TENANT_SOCKETS_MAX MQ_SOCKET_ORIGINS MQ_WEB_WORKERS MQ_ENGINE_STORE_DIR
           MQ_TAIL_WATCHERS_MAX MQ_SOCKET_COMMANDS_PER_SECOND_MAX MQ_SOCKET_NO_OPS_PER_SECOND_MAX
           MQ_REPORTS_AT MQ_REPORTS_ZONE MQ_REPORTS_MASTER MQ_REPORTS_MEMORY MQ_REPORTS_LIMIT_S
           MQ_REPORTS_CONF MQ_REPORTS_LAKE MQ_REPORTS_OUT MQ_REPORTS_BY_HAND_MAX MQ_ENVIRONMENT
           MQ_ENGINE_SECRET MQ_SHARD_CA_FILE MQ_REPLICATED_LOG MQ_SHARD_METRICS_PORTS
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mqservice.env import (
    envbool,
    envchoice,
    envclock,
    envint,
    envissuer,
    envlist,
    envnetworks,
    envorigin,
    envports,
    envsecret,
    envtext,
    envurl,
    envzone,
)
from mqservice.lib.database_options import database_options
from mqservice.lib.frontend import FRONTEND_DIR
from mqservice.lib.middleware import add_static_headers
from mqservice.lib.replicated_log import REPLICATED_LOG_VARIABLE

SECRET_CHARS_MIN: Final = 32

# Which process this is: web, with pooled connections, clock, worker, beat or manage (all others)
MQ_PROCESS = envtext("MQ_PROCESS", "manage")

# ---- Secrets -----------------------------------------------------------------------------------

SECRET_KEY = envsecret("MQ_SECRET_KEY", chars_min=SECRET_CHARS_MIN)
SECRET_KEY_FALLBACKS = envlist("MQ_SECRET_KEY_FALLBACKS", [])
# API keys are stored as MACs under this; a value of its own lets MQ_SECRET_KEY be renewed alone.
MQ_KEY_PEPPER = envsecret("MQ_KEY_PEPPER", chars_min=SECRET_CHARS_MIN, default=SECRET_KEY)
MQ_KEY_PEPPER_FALLBACKS = envlist("MQ_KEY_PEPPER_FALLBACKS", SECRET_KEY_FALLBACKS)

# ---- Where things are --------------------------------------------------------------------------

MQ_DATA_DIR = Path(envtext("MQ_DATA_DIR", "var")).absolute()
MQ_ENGINE_SOCKET = envtext("MQ_ENGINE_SOCKET", str(MQ_DATA_DIR / "run" / "engine.sock"))
# What this process shows engines over a network, and whose certificates it trusts.
MQ_ENGINE_SECRET = envsecret("MQ_ENGINE_SECRET", chars_min=0, default="")
MQ_SHARD_CA_FILE = envtext("MQ_SHARD_CA_FILE", "")
# Whether the engines have a replicated log: then new topics are replicated, and every shard may
# be at another address tomorrow.
MQ_REPLICATED_LOG = bool(envtext(REPLICATED_LOG_VARIABLE, ""))
MQ_VALKEY_URL = envurl(
    "VALKEY_URL", "redis", "rediss", "unix", default="redis://127.0.0.1:6379/0"
).geturl()
MQ_PORT = envint("MQ_PORT", 8000, minimum=1, maximum=65535)
MQ_BASE_URL = (
    envurl("MQ_BASE_URL", "http", "https", default=f"http://127.0.0.1:{MQ_PORT}")
    .geturl()
    .rstrip("/")
)
_base_url = urlsplit(MQ_BASE_URL)
_is_https = _base_url.scheme == "https"

# ---- Django ------------------------------------------------------------------------------------

DEBUG = envbool("MQ_DEBUG", False)
ALLOWED_HOSTS = envlist(
    "MQ_ALLOWED_HOSTS", [_base_url.hostname or "localhost", "localhost", "127.0.0.1", "[::1]"]
)
ROOT_URLCONF = "mqservice.urls"
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.usersessions",
    "django_htmx",
    "mqservice.shards",
    "mqservice.accounts",
    "mqservice.people",
    "mqservice.idempotency",
    "mqservice.quotas",
    "mqservice.masking",
    "mqservice.searches",
    "mqservice.topic_schemas",
    "mqservice.topics",
    "mqservice.groups",
    "mqservice.usage",
    "mqservice.tasks",
    "mqservice.schedules",
    "mqservice.sampling",
    "mqservice.issues",
    "mqservice.alerts",
    "mqservice.reports",
    "mqservice.monitoring",
    "mqservice.console",
]
MIDDLEWARE = [
    "mqservice.console.static_files.StaticFilesMiddleware",  # the only async one, hence outermost
    "mqservice.lib.middleware.RequestIdMiddleware",
    "mqservice.lib.middleware.SecurityHeadersMiddleware",
    "mqservice.lib.middleware.ProblemMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "mqservice.console.shared.language.PageLocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "mqservice.usage.middleware.ControlPlaneMiddleware",
    "mqservice.idempotency.middleware.IdempotencyMiddleware",  # calls views, hence innermost
]
# Of programs, who have no session, form or file; see ``control_plane``.
MQ_API_MIDDLEWARE = [
    "mqservice.lib.middleware.RequestIdMiddleware",
    "mqservice.lib.middleware.SecurityHeadersMiddleware",
    "mqservice.lib.middleware.ProblemMiddleware",
    "django.middleware.common.CommonMiddleware",
    "mqservice.usage.middleware.ControlPlaneMiddleware",
    "mqservice.idempotency.middleware.IdempotencyMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [FRONTEND_DIR / "templates"],
        "APP_DIRS": True,  # mails of allauth; its pages are ours, in frontend/templates
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "mqservice.console.shared.preferences.preferences",
            ],
            "builtins": [
                "django.templatetags.i18n",
                "django.templatetags.static",
                "mqservice.lib.units",
                "mqservice.console.templatetags.parts",
            ],
        },
    }
]
APPEND_SLASH = False
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024  # forms and settings; messages do not come this way
DATA_UPLOAD_MAX_NUMBER_FIELDS = 200
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [FRONTEND_DIR / "locale"]
LANGUAGE_COOKIE_NAME = "mq_language"
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_SECURE = _is_https
# In the session: what a page tells the next one is nobody else's to read or to write.
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
# What people call this installation, such as production: a badge on each page of the console.
MQ_ENVIRONMENT = envtext("MQ_ENVIRONMENT", "")[:24]

# ---- PostgreSQL --------------------------------------------------------------------------------

MQ_DATABASE_URL = envsecret("DATABASE_URL", chars_min=1)
_database = envurl("DATABASE_URL", "postgresql", "postgres", default=MQ_DATABASE_URL)
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": _database.hostname or "",
        "PORT": str(_database.port or ""),
        "USER": unquote(_database.username or ""),
        "PASSWORD": unquote(_database.password or ""),
        "NAME": unquote(_database.path.lstrip("/")),
        "CONN_MAX_AGE": 0,
        "OPTIONS": database_options(_database.query, MQ_PROCESS),
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# ---- What web processes share ------------------------------------------------------------------

# Counts of attempts and used codes: in Valkey, and in each process by itself while that is away.
CACHES = {
    "default": {
        "BACKEND": "mqservice.lib.shared_cache.SharedCache",
        "LOCATION": MQ_VALKEY_URL,
        "KEY_PREFIX": "mq:cache",
    }
}

# ---- People ------------------------------------------------------------------------------------

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["mqservice.people.password_backend.PasswordBackend"]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "mqservice.people.password_rules.LengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "console:overview"
LOGOUT_REDIRECT_URL = "account_login"
# Kept in PostgreSQL, so that losing all of Valkey signs nobody out.
SESSION_ENGINE = "mqservice.lib.sessions"
SESSION_COOKIE_AGE = 12 * 60 * 60
SESSION_COOKIE_NAME = "__Host-mq_session" if _is_https else "mq_session"
SESSION_COOKIE_SECURE = _is_https
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_NAME = "__Host-mq_csrf" if _is_https else "mq_csrf"
CSRF_COOKIE_SECURE = _is_https
CSRF_COOKIE_HTTPONLY = True
CSRF_TRUSTED_ORIGINS = [f"{_base_url.scheme}://{_base_url.netloc}"]

# open: anybody may sign up and found a tenant; invited: only who brings an invitation.
MQ_SIGN_UP = envchoice("MQ_SIGN_UP", "open", "invited")
ACCOUNT_ADAPTER = "mqservice.people.account_adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_FORMS = {
    "signup": "mqservice.people.forms.SignUpForm",
    "reset_password": "mqservice.people.forms.ForgottenPasswordForm",
}
# The user name is made of the address: asked for, it would tell who is here already.
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_EMAIL_CONFIRMATION_EXPIRE_DAYS = 1
ACCOUNT_LOGIN_ON_EMAIL_CONFIRMATION = True  # in the browser that has just signed up, only there
ACCOUNT_EMAIL_SUBJECT_PREFIX = "mqservice: "
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_MAX_EMAIL_ADDRESSES = 5
ACCOUNT_SESSION_REMEMBER = True  # for SESSION_COOKIE_AGE, no longer
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_REAUTHENTICATION_TIMEOUT = 5 * 60
ACCOUNT_DEFAULT_HTTP_PROTOCOL = _base_url.scheme
ACCOUNT_RATE_LIMITS = {
    "login": "30/m/ip",
    "single_sign_on": "60/m/ip",
    "login_failed": "10/m/ip,5/300s/key",
    "signup": "10/m/ip",
    "reset_password": "10/m/ip,3/10m/key",
    "reset_password_from_key": "10/m/ip",
    "reauthenticate": "10/m/user",
    "change_password": "5/m/user",
    "manage_email": "10/m/user",
    "confirm_email": "1/3m/key",
}
MFA_ADAPTER = "mqservice.people.mfa_adapter.MfaAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_TOTP_ISSUER = "mqservice"
MFA_TOTP_TOLERANCE = 1  # a code of the period before is good still: clocks differ
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not _is_https  # browsers themselves allow it on localhost only
USERSESSIONS_TRACK_ACTIVITY = False  # a write for each page

# Wrong keys of one address in a minute, after which keys from there are not looked up for a while;
# 0: as many as come.
MQ_FAILED_KEYS_MAX = envint("MQ_FAILED_KEYS_MAX", 300, minimum=0, maximum=1_000_000)
# For how long the audit is kept.
MQ_AUDIT_DAYS = envint("MQ_AUDIT_DAYS", 400, minimum=30, maximum=3_650)

# ---- Single sign-on ----------------------------------------------------------------------------

# The OpenID provider where people may sign in too; without it there is none. With it, both texts
# that it gave this service are needed.
MQ_OIDC_ISSUER = envissuer("MQ_OIDC_ISSUER")
MQ_OIDC_CLIENT_ID = envtext("MQ_OIDC_CLIENT_ID", None if MQ_OIDC_ISSUER else "")
MQ_OIDC_CLIENT_SECRET = envsecret(
    "MQ_OIDC_CLIENT_SECRET",
    chars_min=1 if MQ_OIDC_ISSUER else 0,
    default=None if MQ_OIDC_ISSUER else "",
)
# What people call it, for the button; 40 is what allauth's column has room for.
MQ_OIDC_NAME = envtext("MQ_OIDC_NAME", "SSO")[:40]
SOCIALACCOUNT_ADAPTER = "mqservice.people.social_adapter.SocialAdapter"
SOCIALACCOUNT_LOGIN_ON_GET = True  # our policy lets a form lead to no other site, a link may
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False  # SocialAdapter decides whose address it is

# ---- HTTP safety -------------------------------------------------------------------------------

# An API request over plain HTTP is not redirected: its key would already have been sent in the
# clear.
SECURE_SSL_REDIRECT = False
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60 if _is_https else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = False
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # other names below ours are not this service's to bind,
    "security.W021",  # nor is a list that browsers ship
    "security.W008",  # see SECURE_SSL_REDIRECT
]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if envbool("MQ_TRUST_PROXY", False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

# ---- Static files ------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = MQ_DATA_DIR / "static"
STATICFILES_DIRS = [FRONTEND_DIR / "static"]
SERVESTATIC_USE_FINDERS = True  # read from frontend/static at the start; no collecting step
SERVESTATIC_AUTOREFRESH = DEBUG
SERVESTATIC_MAX_AGE = 300
SERVESTATIC_ALLOW_ALL_ORIGINS = False
SERVESTATIC_ADD_HEADERS_FUNCTION = add_static_headers

# ---- Limits of tenants --------------------------------------------------------------------------

# Messages per second of one redrive: what it takes when it says nothing, and what it may ask for.
MQ_REDRIVE_RATE_MAX = envint("MQ_REDRIVE_RATE_MAX", 5_000, minimum=1, maximum=100_000)
MQ_REDRIVE_RATE_DEFAULT = envint(
    "MQ_REDRIVE_RATE_DEFAULT", min(500, MQ_REDRIVE_RATE_MAX), minimum=1, maximum=MQ_REDRIVE_RATE_MAX
)

# How many web processes there are, as far as the configuration knows: each keeps to such a part of
# the tenants' quotas while nobody can be asked.
MQ_WEB_WORKERS = envint("MQ_WEB_WORKERS", 1, minimum=1, maximum=64)

# ---- Background work ----------------------------------------------------------------------------

# How often the engine is told to deliver what is due.
MQ_TICK_MS = envint("MQ_TICK_MS", 1_000, minimum=100, maximum=2_000)

# ---- Alerts ------------------------------------------------------------------------------------

# smtp://USER:PASSWORD@HOST:PORT, or smtp+tls:// for STARTTLS, smtps:// for TLS from the start.
# Without it no rule may name an address.
MQ_EMAIL_URL = envsecret("MQ_EMAIL_URL", chars_min=0, default="")
MQ_EMAIL_FROM = DEFAULT_FROM_EMAIL = envtext("MQ_EMAIL_FROM", "mqservice@localhost")
EMAIL_TIMEOUT = 10
if MQ_EMAIL_URL:
    _email = envurl("MQ_EMAIL_URL", "smtp", "smtp+tls", "smtps", default=MQ_EMAIL_URL)
    EMAIL_HOST = _email.hostname or ""
    EMAIL_PORT = _email.port or {"smtp": 25, "smtp+tls": 587, "smtps": 465}[_email.scheme]
    EMAIL_HOST_USER = unquote(_email.username or "")
    EMAIL_HOST_PASSWORD = unquote(_email.password or "")
    EMAIL_USE_TLS = _email.scheme == "smtp+tls"
    EMAIL_USE_SSL = _email.scheme == "smtps"
else:  # to be read by who runs it: links of sign-up and new passwords
    EMAIL_BACKEND = "mqservice.lib.mail_files.PrivateFiles"
    EMAIL_FILE_PATH = MQ_DATA_DIR / "mail"
# Networks that webhooks may reach although they are not public, such as 10.1.0.0/16; there plain
# HTTP is allowed as well.
MQ_WEBHOOK_NETWORKS = envnetworks("MQ_WEBHOOK_NETWORKS")

# WebSockets of one web process: in all, and of one tenant. Each takes some 40 KiB, and 100 KiB with
# messages under way.
MQ_SOCKETS_MAX = envint("MQ_SOCKETS_MAX", 10_000, minimum=1, maximum=1_000_000)
MQ_TENANT_SOCKETS_MAX = envint(
    "MQ_TENANT_SOCKETS_MAX", min(5_000, MQ_SOCKETS_MAX), minimum=1, maximum=MQ_SOCKETS_MAX
)
# What one WebSocket may send. Above either it is read more slowly, and after ten seconds above the
# second in a row it is closed. That one counts what an honest client sends little of: pings, pongs,
# fragments below 512 bytes, and commands that are refused or have no effect.
MQ_SOCKET_COMMANDS_PER_SECOND_MAX = envint(
    "MQ_SOCKET_COMMANDS_PER_SECOND_MAX", 50_000, minimum=100, maximum=10_000_000
)
MQ_SOCKET_NO_OPS_PER_SECOND_MAX = envint(
    "MQ_SOCKET_NO_OPS_PER_SECOND_MAX", 1_000, minimum=10, maximum=1_000_000
)

# Pages that follow topics of one namespace at a time (live tail), in each web process.
MQ_TAIL_WATCHERS_MAX = envint("MQ_TAIL_WATCHERS_MAX", 10, minimum=1, maximum=1_000)

# Pages of these origins may open sockets too, such as https://app.example.com. Those of the service
# itself always may; programs send no origin.
MQ_SOCKET_ORIGINS = [
    envorigin("MQ_SOCKET_ORIGINS", text) for text in envlist("MQ_SOCKET_ORIGINS", [])
]

# ---- Reports -----------------------------------------------------------------------------------

# When the day before is reported: a local time of the zone, or off.
MQ_REPORTS_AT = envclock("MQ_REPORTS_AT", "02:30")
MQ_REPORTS_ZONE = envzone("MQ_REPORTS_ZONE", "UTC")
# Runs that a tenant may order within 24 hours, each over the whole installation; 0: only nights.
MQ_REPORTS_BY_HAND_MAX = envint("MQ_REPORTS_BY_HAND_MAX", 4, minimum=0, maximum=1_000)
# Spark's: local[*], local[2], spark://HOST:7077, yarn, k8s://...; settings as NAME=VALUE, comma-
# separated. On a cluster its executors must see the store, the lake and the reports by these paths.
MQ_REPORTS_MASTER = envtext("MQ_REPORTS_MASTER", "local[*]")
MQ_REPORTS_MEMORY = envtext("MQ_REPORTS_MEMORY", "1g")
MQ_REPORTS_CONF = envlist("MQ_REPORTS_CONF", [])
# Below the four hours after which Valkey hands a task out again.
MQ_REPORTS_LIMIT_S = envint("MQ_REPORTS_LIMIT_S", 2 * 60 * 60, minimum=60, maximum=3 * 60 * 60)
MQ_ENGINE_STORE_DIR = Path(envtext("MQ_ENGINE_STORE_DIR", str(MQ_DATA_DIR / "store"))).absolute()
# Where the engine answers Prometheus, for the operator's page; 0: nowhere.
MQ_ENGINE_METRICS_PORT = envint("MQ_ENGINE_METRICS_PORT", 0, minimum=0, maximum=65_535)
# The same of the engines of other shards on this machine.
MQ_SHARD_METRICS_PORTS = envports("MQ_SHARD_METRICS_PORTS")
MQ_REPORTS_LAKE = envtext("MQ_REPORTS_LAKE", str(MQ_DATA_DIR / "lake"))
MQ_REPORTS_OUT = envtext("MQ_REPORTS_OUT", str(MQ_DATA_DIR / "reports"))

# ---- Logs --------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "mqservice.lib.json_logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": envtext("MQ_LOG_LEVEL", "INFO")},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        # Refusals are answers, not events; 5xx are logged where they arise.
        "django.request": {"handlers": [], "level": "ERROR", "propagate": True},
        # Anybody can send a wrong Host header, which is a refusal as well.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        "django.server": {"handlers": [], "level": "INFO", "propagate": True},
        # Several lines a tick, each a second apart, would bury what matters.
        "celery": {"level": "WARNING"},
    },
}
