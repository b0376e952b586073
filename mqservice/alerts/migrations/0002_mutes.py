"""Mutes with an end, and what was told last of each rule."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0001_initial"),
    ]

    operations = [
        migrations.AddField(
            model_name="alertrule",
            name="told_state",
            field=models.CharField(default="ok", max_length=16),
        ),
        migrations.AddField(
            model_name="alertrule",
            name="muted_until_ms",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="alertrule",
            name="muted_by",
            field=models.CharField(blank=True, max_length=200),
        ),
        migrations.AddField(
            model_name="alertrule",
            name="mute_reason",
            field=models.CharField(blank=True, max_length=200),
        ),
        # Of rules that fire everybody has been told already.
        migrations.RunSQL("UPDATE alerts_alertrule SET told_state = state", migrations.RunSQL.noop),
    ]
