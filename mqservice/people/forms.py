"""Our own forms, and those of allauth that would tell by their time who has an account."""

from __future__ import annotations

from typing import Any

from allauth.account import forms as account_forms
from allauth.account.adapter import get_adapter
from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy

from mqservice.accounts.models import User
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.people.same_work import (
    ask_as_for_a_reset_token,
    made_up_address,
    users_of,
    written,
)


class NewTenantForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Tenant name"),
        max_length=NAME_CHARS_MAX,
        help_text=gettext_lazy(
            "Letters, digits, - and _. Your first namespace gets the same name, so it is part of "
            "the URLs of your topics."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "organization", "autocapitalize": "none"}),
    )


class SignUpForm(account_forms.SignupForm):  # type: ignore[misc]  # allauth has no types
    """An address that is here costs what a new one does: password hash, rows, mail."""

    account_already_exists: bool

    def try_save(self, request: HttpRequest) -> tuple[User | None, HttpResponse | None]:
        if not self.account_already_exists:
            with written(kept=True):
                return self.save(request), None
        email = self.cleaned_data["email"]
        self.cleaned_data["email"], self.account_already_exists = made_up_address(), False
        with written(kept=False):
            self.save(request)
        self.cleaned_data["email"], self.account_already_exists = email, True
        _, response = super().try_save(request)
        return None, response


class ForgottenPasswordForm(account_forms.ResetPasswordForm):  # type: ignore[misc]  # as above
    """An address that is not here costs what a known one does."""

    def clean_email(self) -> str:
        email = str(get_adapter().clean_email(self.cleaned_data["email"].lower()))
        self.users = [user for user in users_of(email) if user.is_active]
        return email

    def save(self, request: HttpRequest, **more: Any) -> str:  # Any: as allauth has it
        if not self.users:
            ask_as_for_a_reset_token(self.cleaned_data["email"])
        return str(super().save(request, **more))
