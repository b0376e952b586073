# ======================================================================== modules
m("storage_engine", """
broadcasting broadcast_groups
kept_sessions saved_sessions
once_puts idempotent_puts
listening notice_listener
observation engine_status
observers status_calls
inspections inspection_calls
calls store_calls
namespace_uses namespace_usage
tracing message_trace
""")
m("storage_engine.backup", "adopting adopt; copying file_copy; holding log_hold; taking take_backup; lines protocol_lines")
m("storage_engine.delivery", """
holdups delivery_blockers
looking filter_scan
settling settle
taking_in_order ordered_take
waiting waiting_receives
clamping clamp_offsets
receiving receive
leasing lease_messages
""")
m("storage_engine.groups", "quick_due due_fast_path")
m("storage_engine.recovery", "refusals open_checks")
m("storage_engine.wire", """
told_calls reply_handlers
once put_once
uses usage
observing observers
""")
m("mqservice.accounts", """
founding tenant_creation
joining join_tenant
people_access session_access
""")
m("mqservice.alerts", "issue_looks issue_rules; states rule_status")
m("mqservice.backups", "fresh_place new_data_dir; place new_directory")
m("mqservice.console", "asking data_plane; curls curl_commands; moments form_times; zones time_zones; texts translations")
m("mqservice.definitions", "written document_format")
m("mqservice.delivery", """
parked long_poll
once idempotency
settlement settle_plan
produce_answers produce_responses
replies response_format
waits delivery_time
""")
m("mqservice.delivery.socket", """
held leased_messages
held_batch leased_batch
kept saved_session
settlement settle_batches
confirming publish_confirms
description session_description
""")
m("mqservice.lib", """
client_gone client_disconnect
vanished tcp_timeouts
strangers unauthenticated
whole_answer whole_response
""")
m("mqservice.people", "founding own_tenant")
m("mqservice.quotas", "holdings engine_usage; refusals rejection_pacing")
m("mqservice.reports", """
nights due_days
words formatting
settles settle_export
exports lag_export
mails emails
running make_reports
""")
m("mqservice.sampling", "marks progress_marks")
m("mqservice.schedules", "charging quota_charges")
m("mqservice.supervisor", "gates readiness; operating operator_commands")
m("analytics", "nightly report_run")

# ======================================================================== engine: classes and functions
c("storage_engine.filters.syntax", "Every And; Some Or")
f("storage_engine.filters.evaluation", "_every _all_of; _some _any_of")
f("storage_engine.filters.message_filter", "keep_compiled set_compiled_max; _kept _canonical_or_none; _always _match_all")
me("storage_engine.filters.message_filter._Conditions", "keep set_max")
me("storage_engine.filters.parser._Parser", "_take _next_token; _takes _accept; _take_node _use_node; whole parse")

c("storage_engine.broadcasting", "Broadcasting BroadcastGroups; _OfReader _ReaderRequest")
k("storage_engine.broadcasting", "_FORGOTTEN_MAX _EXPIRED_MAX")
f("storage_engine.calls", "calls_of store_calls")
f("storage_engine.inspections", "inspections inspection_calls")
f("storage_engine.observers", "observers status_calls")
me("storage_engine.catalog.Catalog", """
_tell_of_topic _notify_topic_change
_tell_of_group _notify_group_change
_is_other_topic _is_topic_changed
_is_other_group _is_group_changed
_refuse_other_progress _reject_dispatch_change
""")
f("storage_engine.catalog", "_unheard _ignore_change; _unread _never_read")
c("storage_engine.kept_sessions", "KeptSessions SavedSessions; _Kept _SavedSession; _Wait _TakeOver")
a("storage_engine.kept_sessions.KeptSessions", "_kept _sessions; _kept_bytes _saved_bytes; _waits _take_overs; _ends _expiries; _wait_ends _take_over_expiries")
a("storage_engine.kept_sessions._Wait", "answer reply; asker requester")
me("storage_engine.kept_sessions.KeptSessions", "keep save; _gone _lost_leases; _end_wait _end_take_over; _next_wait _next_take_over")
f("storage_engine.kept_sessions", "_gone _lost_lease")
c("storage_engine.once_puts", "OncePuts IdempotentPuts; _Waiting _PendingReply; _Offered _Offer")
f("storage_engine.once_puts", "_twin _duplicate_of_first; _offered _read_offer")
me("storage_engine.once_puts._Waiting", "ended settle_one")
c("storage_engine.listening", "Listening NoticeListener")
me("storage_engine.notices.Listener, storage_engine.listening.Listening", "hear on_notice")
me("storage_engine.notices.Notices", "tell notify")
me("storage_engine.listening.Listening", "keep save_session; take take_session; absent session_absent; _taken _session_taken; begin start; end stop")
c("storage_engine.namespace_uses", "NamespaceUses NamespaceUsageCounter")
a("storage_engine.namespace_uses.NamespaceUses", "_answers _replies")
me("storage_engine.namespace_uses.NamespaceUses", "use usage; _look _measure")
k("storage_engine.namespace_uses", "_ANSWERS_MAX _REPLIES_MAX")
c("storage_engine.tracing", "Tracing MessageTracer")
me("storage_engine.tracing._Trace", "_show _add_hop; _is_ours _is_in_namespace")
me("storage_engine.dead_letters.DeadLetters", "is_gone is_removed")
me("storage_engine.queries.Queries", "gone removed_flags; _never _is_never_removed") if False else None
k("storage_engine.index.key_lookup", "IsGone IsRemoved")
a("storage_engine.index.key_lookup.KeyLookup", "_is_gone _is_removed")
me("storage_engine.dedup_files.DedupFiles", "_take_old _pop_expired")
c("storage_engine.delay_clock", "_Kept _SavedClock")
a("storage_engine.delay_clock.DelayClock", "_is_kept _is_saved")
me("storage_engine.delay_clock.DelayClock", "keep save")
me("storage_engine.disk.spare_file.SpareFile", "keep prepare; _is_there _exists")
me("storage_engine.disk.disk_space.DiskSpace", "look measure; _take _create_reserve")
me("storage_engine.disk.files.Files", "read_no_more_than_asked disable_read_ahead; _write_aside _write_temporary; take_room preallocate")
me("storage_engine.disk.lock.StoreLock", "_is_still _is_same_file; sign write_owner; _take _try_lock")
me("storage_engine.disk.mapped_files.MappedFiles", "look open_read_only; take_before remove_before")
f("storage_engine.engine_puts", "_nobody_asks _ignore_outcome")
f("storage_engine.groups.retry_record", "_tell _set_trace_property")
c("storage_engine.groups.quick_due", "QuickWay DueFastPath; QuickDue FastDueRecord")
c("storage_engine.lag.unread", "Unread UnreadCounter; Wanted MatchCount")
me("storage_engine.lag.unread.Unread", """
look count_from
_begin _start
_first_wanted _first_match
_are_wanted _are_matches
_ask _search
""")
me("storage_engine.lag.unread._Sample", "is_good_for is_usable_for")
me("storage_engine.lag.group_progress.GroupProgress", "_kept _cached") if False else None
f("storage_engine.lag.group_progress", "_kept _cached; _held _matched_unsettled")
f("storage_engine.lag.unread", "_held _matched_unsettled")
f("storage_engine.metrics_server", "_said _status_text")
me("storage_engine.metrics_server.MetricsServer", "answer respond")
me("storage_engine.metrics_server._Connection", "_answer _respond")
a("storage_engine.metrics_server._Connection", "_is_answered _has_responded")
k("storage_engine.metrics_server", "Answer Response")
f("storage_engine.moves", "settling settles_for")
me("storage_engine.offset_changes.OffsetChanges", "go_on apply")
a("storage_engine.offset_changes.OffsetChanges", "_tell _notify")
me("storage_engine.offset_feed.OffsetFeed", "_note _record_changes")
a("storage_engine.offset_feed.OffsetFeed", "_noted _recorded")
k("storage_engine.offset_feed", "_Noted _Recorded")
f("storage_engine.pull", "_pull_wanted _pull_filtered")
me("storage_engine.put_path.PutPath", "_put_good_ones _put_valid_records")
f("storage_engine.put_path", "_without_refused _without_rejected")
me("storage_engine.queues.stored_bytes.StoredBytes", "begin start_scan; of measure")
k("storage_engine.queues.stored_bytes", "LOOK_UNITS_MAX SCAN_UNITS_MAX")
k("storage_engine.schedule.pending_bytes", "LOOK_UNITS_MAX SCAN_UNITS_MAX")
me("storage_engine.schedule.pending_bytes.PendingBytes", "look scan; _go_on _continue; _count_anew _recount; _take_away _subtract; of measure")
me("storage_engine.queues.consume_queue.ConsumeQueue", "begin_later raise_start; begin_at start_at; take_back remove_last; turn open_next_file; drop_unreadable delete_unreadable_files")
f("storage_engine.records.causes", "_sign _placeholder; _on_one_line _single_line")
f("storage_engine.records.message_id", "_begin_anew _restart_sequence")
f("storage_engine.recovery.refusals", "refuse_strangers reject_foreign_files; refuse_gaps reject_gaps; _refuse _reject")
f("storage_engine.recovery.recovery", "_refuse_short _reject_short_segments; _refuse_cut _reject_cut_log; _begin_late _raise_queue_starts")
c("storage_engine.recovery.redispatch", "_Like _RecordTemplate")
k("storage_engine.recovery.redispatch", "_LIKES_MAX _TEMPLATES_MAX; _LIKE_BYTES_MAX _TEMPLATE_BYTES_MAX")
a("storage_engine.recovery.redispatch.Redispatch", "_likes _templates")
me("storage_engine.recovery.redispatch.Redispatch", "_look _read_record")
a("storage_engine.repair.Cut", "kept_in saved_in")
f("storage_engine.repair", "_keep _save_removed_bytes")
me("storage_engine.retention.Retention", "_going _segments_to_delete; _unheld _not_held")
me("storage_engine.retries.Retries", "_successor_or_back _successor_or_retry_in_place; _put_back _retry_in_place")
c("storage_engine.schedule.due_index", "_Look _Lookahead")
me("storage_engine.schedule.due_index.DueIndex", "_begin_look _start_lookahead; _bound_look _bound_lookahead; _give_up_look _cancel_lookahead")
me("storage_engine.schedule.schedule.Schedule", "_begin_delivery _start_delivery; _taken _take_due; _drop _settle_undeliverable")
a("storage_engine.schedule.schedule._Waiting", "until_ms wait_until_ms") if False else None
me("storage_engine.schedule.scheduled_messages.ScheduledMessages", "_look _add_messages")
c("storage_engine.schedule.scheduled_messages", "_Wanted _TopicMatch")
me("storage_engine.schedule.scheduled_retries.ScheduledRetries", """
_look_for_oldest _find_oldest
_lose_most _drop_largest
_is_lost _is_dropped
_go_on_with_pass _continue_pass
_begin_turn _schedule_turn
""")
k("storage_engine.server", "_SIGN_OF_LIFE_MS _KEEPALIVE_MS")
me("storage_engine.server._Connection", "show_life send_keepalive")
f("storage_engine.server", "_make_way _remove_stale_socket")
c("storage_engine.shared_writes", "_Write _PendingWrite")
a("storage_engine.shared_writes._Write", "answers replies; is_taken is_started")
me("storage_engine.shared_writes.SharedWrites", "_tell _send_replies; _begin _start_write; _done _finish_write")
k("storage_engine.shared_writes", "Answer Reply")
me("storage_engine.snapshots.Snapshots", "held_from lowest_held_offset")
k("storage_engine.store", "PutAnswer PutReply")

c("storage_engine.backup.holding", "HeldLog LogHold")
me("storage_engine.backup.holding.HeldLog", "take_again renew; keep renew_if_due")
c("storage_engine.backup.lines", "Go StartCopy; Known KnownSegment; Taken CopyStarted; Step CopyProgress")
c("storage_engine.backup.small_files", "NeverStill FilesKeptChanging")
f("storage_engine.backup.small_files", "_look _file_identities")
k("storage_engine.backup.small_files", "_Look _Identities")
c("storage_engine.backup.taking", "TakingFailed BackupFailed")
f("storage_engine.backup.taking", "take take_backup; _refuse_other_engine _reject_other_engine")
f("storage_engine.backup.__main__", "_wait_for_go _wait_for_start; _say _print_line")

# ------------------------------------------------------------------------ engine: delivery
c("storage_engine.delivery.holdups", "Holdups DeliveryBlockers")
me("storage_engine.delivery.holdups.Holdups", "_say _notify; has_full is_inflight_full")
a("storage_engine.delivery.holdups.Holdups", "_tell _notify_client")
c("storage_engine.delivery.looking", "Look FilterScan; SettlingLook SettlingScan; Looking FilterScans")
me("storage_engine.delivery.looking.Look", "next_wanted next_match; pass_over discard_match")
me("storage_engine.delivery.looking.Look, storage_engine.delivery.looking.SettlingLook", "_wants _is_match")
a("storage_engine.delivery.looking.Look", "began_ms started_ms; passed_over_count discarded_count")
me("storage_engine.delivery.looking.Looking", "begin start_scan; end finish_scan; _want_turn _schedule_turn")
a("storage_engine.delivery.looking.Looking", "_has_turn _is_turn_scheduled; _is_over _is_stopped; _later _call_soon")
k("storage_engine.delivery.looking", "LOOK_MS_MAX SCAN_MS_MAX")
c("storage_engine.delivery.settling", "Settling Settler")
c("storage_engine.delivery.receiving", "Receiving Receiver")
c("storage_engine.delivery.leasing", "Leasing MessageLeaser")
c("storage_engine.delivery.waiting", "Waiting WaitingReceives")
me("storage_engine.delivery.waiting.Waiting", "answer_or_park reply_or_wait; take_place replace")
c("storage_engine.delivery.subscription", "Parked WaitingReceive")
a("storage_engine.delivery.subscription.Parked", "answer reply")
a("storage_engine.delivery.subscription.Subscription", "parked waiting_receives")
me("storage_engine.delivery.subscription.Subscription", "_others_ms _other_members_ms; is_looked_through reads_before_taking")
a("storage_engine.delivery.delivery.Delivery", "holdups blockers; looking filter_scans; _tell _notify; waiting waiting_receives; _leasing _leaser; _settling _settler")
a("storage_engine.delivery.attempts._Attempt", "began_ms started_ms; parked waiting_receive")
me("storage_engine.delivery.attempts.Attempts", "again find_repeat; parked note_waiting")
k("storage_engine.delivery.attempts", "KEPT_MS RETAINED_MS")
c("storage_engine.delivery.attempts", "Attempts ReceiveAttempts")
a("storage_engine.delivery.auto_extend._Member", "heard_ms seen_ms; parked waiting_count")
me("storage_engine.delivery.auto_extend.AutoExtends", "hear member_seen; hearing member_seen_until_reply; parked member_waits")
me("storage_engine.delivery.receiving.Receiving", "hear member_seen")
me("storage_engine.delivery.broadcast_clients.BroadcastClients", "seen client_seen")
me("storage_engine.delivery.consumer_offsets.ConsumerOffsets", "keep_filter save_filter; kept_filter saved_filter; note_failure record_failure; begin start_group")
k("storage_engine.delivery.lease", "ON_ITS_WAY MOVING")
a("storage_engine.delivery.lease.Lease", "began_ms started_ms")
me("storage_engine.delivery.members.Members", "heard member_seen; _note_revoked _record_revoked; take_revoked pop_revoked")
a("storage_engine.delivery.members.Members", "_heard_ms _seen_ms")
me("storage_engine.delivery.memberships.Memberships", "heard member_seen; still_there refresh_member; _tell_revoked _notify_revoked")
a("storage_engine.delivery.memberships.Memberships", "_tell _notify")
f("storage_engine.delivery.memberships", "_holds _has_leases")
me("storage_engine.delivery.readers.Readers", "hear reader_seen; others_ms other_readers_ms")
a("storage_engine.delivery.readers.Readers", "_heard_ms _seen_ms")
a("storage_engine.delivery.message_groups._Group", "held_count leased_count")
a("storage_engine.delivery.message_groups.MessageGroups", "_held _leased")
me("storage_engine.delivery.message_groups.MessageGroups", "put_off suspend; given_back released; _hold _add_leased; _let_go _remove; pass_over skip; drop_passed_over drop_skipped")
me("storage_engine.delivery.process_queue.ProcessQueue", "take_wanted take_filtered; leased_beside_ms others_leased_until_ms; begin_again restart; hold start_move; give_back release")
a("storage_engine.delivery.process_queue.ProcessQueue", "again released")
me("storage_engine.delivery.taking_in_order.ByMessageGroup", "passes_over skips")
f("storage_engine.delivery.offset_journal", "_nobody _placeholder_drop")

# ------------------------------------------------------------------------ engine: wire
c("storage_engine.wire.told_calls", "SettleTold SettleReplyHandler; ReceiveTold ReceiveReplyHandler; ReceiveHold PendingReceive")
a("storage_engine.wire.told_calls.SettleCall", "_told _handler")
a("storage_engine.wire.told_calls.ReceiveCall", "_told _handler")
me("storage_engine.wire.told_calls.Receiver, storage_engine.wire.async_client.AsyncStoreClient", "give_back release")
c("storage_engine.wire.uses", "UseRequest UsageRequest; UseReply UsageReply; NamespaceUse NamespaceUsage")
c("storage_engine.wire.sessions", "HeldLeases SessionLeases; GoneLease LostLease; SessionKeepRequest SessionSaveRequest")
me("storage_engine.wire.async_client.AsyncStoreClient", """
_tell _send_without_reply
_answers_again _engine_responds_again
_fell_silent _engine_fell_silent
_look _check_silence
_begin _start_request
""")
a("storage_engine.wire.async_client.AsyncStoreClient", "_heard _on_notice")
me("storage_engine.wire.sync_calls.SyncCalls", "_ask _call")
me("storage_engine.wire.async_calls.AsyncCalls", "_ask _call")
me("storage_engine.wire.silence.SilenceWatch", "look check")
a("storage_engine.wire.silence.SilenceWatch", "has_heard has_received; _looked_ms _checked_ms; _look_ms_max _check_ms_max")
a("storage_engine.wire.client_types.Received", "_is_looked_at _is_decoded")
f("storage_engine.wire.put_coalescer", "answer_puts complete_puts")
a("storage_engine.wire.frames.FrameDecoder", "_held_bytes _buffered_bytes")

# ------------------------------------------------------------------------ engine: tools
me("storage_engine.verify.index.IndexCheck", "_tell_missing _report_missing; _wrong _report_wrong")
me("storage_engine.verify.verification.Verification", "_tell_limits _report_limits")
f("storage_engine.transfer.source", "_refuse_what_is_no_store _reject_other_directories")
c("storage_engine.transfer.source", "SourceRefused SourceRejected")
me("storage_engine.transfer.source.StoreFiles", "was_stopped_in_order was_shut_down_cleanly")
a("storage_engine.transfer.source.StoreFiles, storage_engine.transfer.source.RocketmqStore, storage_engine.transfer.own_store.OwnStore", "how_to_mend how_to_repair")
f("storage_engine.transfer.__main__", "_say _print_line; _say_step _print_progress")
me("storage_engine.transfer.facts._Gathering", "look read_record; _look_at_timer _read_timer; _look_at_half _read_half_message; _look_at_revival _read_revival; _note_pop _record_pop")
me("storage_engine.transfer.conversion.Conversion", "_leave _leave_behind; _is_former _is_already_settled") if False else None
me("storage_engine.transfer.conversion.Conversion", "_leave _leave_behind; refuse_record reject_record")
me("storage_engine.transfer.exporting._Export", "_is_wanted _is_exported; short short_name")

# ======================================================================== analytics
f("analytics.__main__", "_tell _print_progress; _keep_still _print_nothing; _refuse _reject")
f("analytics.java", "why_no_java java_problem")
f("analytics.session", "why_no_spark spark_problem")
c("analytics.nightly", "Run ReportRun; Outcome RunOutcome")

# ======================================================================== service: accounts
f("mqservice.accounts.access", "_mac_under _mac_with_pepper; _end_of _valid_until; _is_among _has_namespace") if False else None
f("mqservice.accounts.access", "_mac_under _mac_with_pepper; _end_of _valid_until")
me("mqservice.accounts.access.KeyCache", "_life_ms _cache_ms")
a("mqservice.accounts.access.Principal", "is_held is_read_only")
c("mqservice.accounts.audit_search", "AuditQuestion AuditQuery")
f("mqservice.accounts.audit_search", "_fitting _matching")
f("mqservice.accounts.founding", "found_tenant create_tenant")
f("mqservice.accounts.invitation_services", "_make_room _require_room")
k("mqservice.accounts.invitation_services", "_DROPPED_A_TIME _DELETED_PER_CALL")
me("mqservice.accounts.invitation_tokens.Token", "fits matches; _mac_under _mac_with_pepper")
c("mqservice.accounts.joining", "Joining JoinRequest")
f("mqservice.accounts.people_schemas", "read_joining read_join_request")
c("mqservice.accounts.people_schemas", "InvitationOrder NewInvitation")
f("mqservice.accounts.key_schemas", "read_order read_new_key; read_end read_expiry; _shown _as_dict") if False else None
f("mqservice.accounts.key_schemas", "read_order read_new_key; read_end read_expiry")
c("mqservice.accounts.key_services", "KeyOrder NewKey")
f("mqservice.accounts.key_services", "make_key issue_key; end_key revoke_key; _make_room _require_room; _refuse_unfit _reject_unfit; _refuse_revoked _reject_revoked; _refuse_stronger _reject_stronger; _refuse_stronger_row _reject_stronger_row")
k("mqservice.accounts.key_services", "_DROPPED_A_TIME _DELETED_PER_CALL")
c("mqservice.accounts.key_watch", "KeyWatch KeyChangeWatch") if False else None
me("mqservice.accounts.key_watch.KeyWatch", "ask refresh; _ask _refresh")
a("mqservice.accounts.key_watch.KeyWatch", "_asking _refreshing")
k("mqservice.accounts.key_watch", "Heard OnKeyChange")
k("mqservice.accounts.limits", "KEPT_KEYS_MAX REVOKED_KEYS_MAX; KEPT_INVITATIONS_MAX PAST_INVITATIONS_MAX")
f("mqservice.accounts.member_services", "_refuse_last_owner _require_another_owner")
f("mqservice.accounts.people_access", "find_person find_session_principal; person_of session_principal")
f("mqservice.accounts.queries", "keys_seen_by visible_keys; namespaces_seen_by visible_namespaces; waiting_invitations pending_invitations")
f("mqservice.accounts.read_only", "refuse_change reject_change")
f("mqservice.accounts.rest", "let_in authenticate_writer")
f("mqservice.accounts.retention", "drop_old_audit delete_old_audit")
k("mqservice.accounts.retention", "_DROPPED_A_TIME _DELETED_PER_CALL")
f("mqservice.accounts.scopes", "_is_under _is_covered_by")
c("mqservice.accounts.tickets", "_Kept _SavedTicket")
c("mqservice.accounts.tickets_api", "Asker Requester")
f("mqservice.accounts.tickets_api", "ask authenticate_requester")
f("mqservice.people.founding", "may_found may_create_tenant; found_own create_own_tenant")
c("mqservice.people.forms", "FoundingForm NewTenantForm")
f("mqservice.people.auditing", "record_person record_user_action; _person _user_signal")

# ------------------------------------------------------------------------ service: alerts
f("mqservice.alerts.evaluation", "_look _evaluate_rule; _end_mute _clear_mute; _evaluate_some _evaluate_chunk")
k("mqservice.alerts.evaluation", "_LOOKED _EVALUATED_FIELDS; _MUTED _MUTE_FIELDS; _CHANGED _CHANGED_FIELDS")
c("mqservice.alerts.issue_looks", "Looked IssueRuleResult")
f("mqservice.alerts.issue_looks", "look_at_issues evaluate_issue_rules; told_issue issue_reference")
a("mqservice.alerts.issue_looks.Looked", "is_told is_reported")
c("mqservice.alerts.states", "Standing RuleStatus")
f("mqservice.alerts.states", "next_standing next_status")
k("mqservice.alerts.limits", "ISSUES_TOLD_MAX ISSUES_LISTED_MAX; EVENTS_KEPT_MAX EVENTS_RETAINED_MAX; EVENTS_KEPT_MS EVENTS_RETAINED_MS; WEBHOOK_ANSWER_BYTES_MAX WEBHOOK_RESPONSE_BYTES_MAX")
f("mqservice.alerts.retention", "drop_old_events delete_old_events")
k("mqservice.alerts.retention", "DROPPED_MAX DELETED_MAX")
f("mqservice.alerts.services", "_refuse_missing _require_fields; _refuse_unfit _reject_unfit; _refuse_other_revision _require_revision; _end _resolve")
c("mqservice.alerts.addresses", "TargetRefused TargetRejected")
f("mqservice.alerts.addresses", "refuse_literal reject_private_literal")

# ------------------------------------------------------------------------ service: backups, transfers
f("mqservice.backups.database", "held_database frozen_database; _pass_on _forward_script")
c("mqservice.backups.database", "Moment FrozenDatabase; Program ClientProgram")
me("mqservice.backups.database.Program", "end kill")
me("mqservice.backups.engine_copy.EngineCopy", "go start")
c("mqservice.backups.engine_copy", "Taken CopyStarted")
c("mqservice.backups.errors", "BackupRefused BackupRejected")
f("mqservice.backups.fresh_place", "held_place reserved_data_dir")
c("mqservice.transfers.errors", "TransferRefused TransferRejected")

# ------------------------------------------------------------------------ service: CLI
c("mqservice.cli.errors", "UsageRefused UsageError; AnswerMissing ResponseMissing; AnswerMalformed ResponseMalformed; Refused RequestRejected; ConnectionEnded ConnectionLost")
c("mqservice.cli.client", "_BatchAnswer _BatchResponse; _TopicsAnswer _TopicsResponse")
k("mqservice.cli.client", "Answer ResponseT")
me("mqservice.cli.client.RestClient", "order_task create_task")
f("mqservice.cli.client", "refusal_from rejection_from")
f("mqservice.cli.push", "refusal_of rejection_of; _ended _closed_error")
c("mqservice.cli.connection", "_Ended _Disconnected")
c("mqservice.cli.definitions", "ImportAnswer ImportResponse")
c("mqservice.cli.progress", "Sought SeekResult; SoughtQueue QueueSeekResult")
f("mqservice.cli.reader", "parse_place parse_position")
f("mqservice.cli.screen", "say_error print_error; show_aside show_on_stderr; harmless without_controls")
f("mqservice.cli.target", "same_place is_same_server")
f("mqservice.cli.status", "_ask_readiness _get_readiness")
f("mqservice.cli.lazy", "_say_refusal _print_rejection; _speak_plainly _simplify_help")
f("mqservice.cli.verify", "_say _print_line")
f("mqservice.cli.consume", "_say_totals _print_totals; _forget_stdout _detach_stdout; _missing _missing_count")
f("mqservice.cli.backup", "_tell _print_manifest")
f("mqservice.cli.schedule", "_tell _print_schedule; _given _without_none")
k("mqservice.cli.dlq", "ASK_PAUSE_S POLL_PAUSE_S")
k("mqservice.cli.report", "ASK_PAUSE_S POLL_PAUSE_S")
f("mqservice.cli.outputs", "hand_over write_output")
f("mqservice.cli.long_work", "explained exit_on_error")
me("mqservice.cli.http._Connection", "can_be_kept is_reusable; _has_ended _is_closed_by_peer")
me("mqservice.cli.consumer.Consumer", "_still_wanted _remaining_count; _take _accept")
a("mqservice.cli.sender.Sender", "_has_answered _has_responded")

# ------------------------------------------------------------------------ service: console
c("mqservice.console.asking", "Answer DataPlaneResponse")
f("mqservice.console.asking", "ask call_data_plane; ask_next call_for_stream; _ask _call")
f("mqservice.console.masking", "masked_answer mask_response; note_clear audit_unmasked; note_seen audit_seen")
f("mqservice.console.forms_dead_letters", "told problem_message")
c("mqservice.console.forms_dead_letters", "ChosenLetters SelectedLetters")
c("mqservice.console.groups", "Question GroupListQuery")
c("mqservice.console.topics", "Question TopicListQuery")
c("mqservice.console.usage", "Back HistorySpan; Flow UsageLevel")
me("mqservice.console.live.hub.Watch", "tell publish")
me("mqservice.console.live.page_socket.PageSocket", "tell send_json; check_again recheck")
me("mqservice.console.live.consumer.LiveConsumer", "_tell _send_changes")
me("mqservice.console.tail.consumer.Watchers", "one_more watching")
me("mqservice.console.tail.consumer.TailConsumer", "_note_seen _audit_seen; _rest _pause")
me("mqservice.console.tail.reading.Tail", "look read_new")
c("mqservice.console.tail.reading", "Look NewMessages")
me("mqservice.console.tail.rows.TailFilter", "fits matches")
c("mqservice.console.tail.consumer", "TailNews NewRows") if False else None
f("mqservice.console.preferences", "_keep _set_cookie")
f("mqservice.console.clients", "_fits _matches")
f("mqservice.console.exports", "_taken _drain")
f("mqservice.console.views_definitions", "_told _summary")
f("mqservice.console.views_scheduled", "_told _outcome_message; _asked _fetch_page")
f("mqservice.console.views_publish", "_asked _send_one")
f("mqservice.console.views_redrive", "_begun _start_task; _counted _count_ahead")
f("mqservice.console.views_members", "_tell _show_problem")
k("mqservice.console.views_issues", "TOLD CHANGE_MESSAGES")
me("mqservice.console.offset_reset.Preview", "is_still_so is_unchanged")
f("mqservice.console.cron_words", "words_of describe_cron")
f("mqservice.console.group_health", "_why_nothing _explain_no_delivery")

# ------------------------------------------------------------------------ service: definitions, groups, issues
f("mqservice.definitions.written", "written serialize; told_by_line with_line_numbers")
f("mqservice.definitions.documents", "refuse_repeated reject_duplicates; refuse reject")
f("mqservice.groups.services", "_refuse_other_revision _require_revision; _refuse_what_broadcast_has_not _reject_broadcast_settings")
f("mqservice.groups.management.commands.define_imported", "_refuse_others _reject_other_definitions")
c("mqservice.issues.models", "Why StateChangeReason")
f("mqservice.issues.changes", "note record_event")
k("mqservice.issues.limits", "EVENTS_KEPT_MAX EVENTS_RETAINED_MAX; KEPT_MS RETAINED_MS; HOURS_KEPT HOURS_RETAINED")
f("mqservice.issues.retention", "drop_old delete_old")
f("mqservice.masking.masks", "sees can_see; holds_for applies_to")
me("mqservice.masking.masks.TopicMask", "is_asked_by is_named_in; refuse_question reject_hidden_filter; has_clear has_unmasked")
f("mqservice.masking.services", "_refuse_unfit _reject_unfit; _refuse_hidden _require_can_see; _refuse_other_revision _require_revision")
c("mqservice.masking.services", "RuleOrder MaskRuleChange")
f("mqservice.idempotency.middleware", "_answer_once _respond_once; _answer_again _repeat_response; _begin _claim_key")
k("mqservice.idempotency.middleware", "_HEADERS_KEPT _SAVED_HEADERS")
k("mqservice.idempotency.tasks", "_DROPPED_A_TIME _DELETED_PER_CALL")
k("mqservice.people.tasks", "_DROPPED_A_TIME _DELETED_PER_CALL")
k("mqservice.tasks.services", "_DROPPED_A_TIME _DELETED_PER_CALL")

# ------------------------------------------------------------------------ service: delivery
c("mqservice.delivery.http", "ClientGone ClientDisconnected")
f("mqservice.delivery.http", "answer respond; answer_now try_respond; answer_problem respond_problem; refuse_upgrade reject_upgrade")
a("mqservice.delivery.http.Request", "answer_bytes response_bytes")
c("mqservice.delivery.parked", "Poll LongPoll")
k("mqservice.delivery.parked", "Ended OnOutcome; _NOTHING _NO_MESSAGES")
a("mqservice.delivery.parked.Poll", "_ended _on_outcome; _hold _pending")
me("mqservice.delivery.parked.Poll", "client_gone client_disconnected; _until_gone _wait_for_disconnect; _end _abort")
c("mqservice.delivery.settlement", "Plan SettlePlan; Settlement SettleItems; SettleAnswer SettleResponse; Failed FailedReceipt; Extended ExtendedLease")
me("mqservice.delivery.settlement.Plan", "answer result")
a("mqservice.delivery.settlement.Plan", "_heard _client_id")
c("mqservice.delivery.produce_answers", "StoredAnswer StoredResponse; BatchAnswer BatchResponse; RefusedResult RejectedResult")
f("mqservice.delivery.produce_answers", "waiting scheduled_fields; refused_result rejected_result")
f("mqservice.delivery.receive", "wanted_of read_receive")
c("mqservice.delivery.receive", "ReceiveAnswer ReceiveResponse")
f("mqservice.delivery.replies", "takes_msgpack accepts_msgpack")
f("mqservice.delivery.settle", "_heard_of _seen_client")
f("mqservice.delivery.waits", "wait_of read_wait; told_as_time as_time_fault; is_to_come is_in_future; check_far check_not_too_far; level_of_header read_level_header")
f("mqservice.delivery.connection_calls", "answer_calls serve_calls; answer_of reply_to; _answer_all _serve; _new_ask _new_call_id; _ask _call")
f("mqservice.delivery.plane", "keep_match remember_match")
me("mqservice.delivery.drain.Drain", "begin start; wait_idle wait_until_idle")
f("mqservice.delivery.path_routes", "group_route find_group; topic_route find_topic") if False else None
c("mqservice.delivery.reading.browse", "BrowseAnswer BrowseResponse")
c("mqservice.delivery.reading.pull", "PullAnswer PullResponse; OffsetAnswer OffsetResponse")
c("mqservice.delivery.reading.scheduled", "ScheduledAnswer ScheduledResponse; NamespaceScheduledAnswer NamespaceScheduledResponse; NewTime RescheduleRequest")
f("mqservice.delivery.reading.scheduled", "_answer _respond; _refuse_lost _reject_too_late; _is_there _topic_exists")
c("mqservice.delivery.reading.dead_letters", "DeadLettersAnswer DeadLettersResponse")
c("mqservice.delivery.reading.walk", "Question BrowseQuery; Page BrowsePage")
c("mqservice.delivery.reading.cause_walk", "CauseQuestion CauseQuery")
f("mqservice.delivery.reading.cause_walk", "_fitting _matching")
f("mqservice.delivery.reading.browse", "_question_of _read_query; find_page_of page_reader")
k("mqservice.delivery.reading.browse", "encode_question encode_query")
f("mqservice.delivery.reading.key_search", "_is_wanted _matches")
f("mqservice.delivery.reading.same_cause", "cause_asked requested_cause")
me("mqservice.delivery.reading.same_cause.SameCause", "fits matches")
c("mqservice.delivery.reading.queue_merge", "_Lane _QueueCursor")
me("mqservice.delivery.sessions.Subscription, mqservice.delivery.socket.subscription.Subscription", "heard on_notice")
me("mqservice.delivery.sessions.Sessions", "_heard _on_notice; _tell_absent _report_absent")
a("mqservice.delivery.sessions.Sessions", "_telling _absent_reports")
me("mqservice.delivery.sessions.Session, mqservice.delivery.socket.session.Session", "take_over hand_over")
c("mqservice.delivery.socket.held", "Held LeasedMessages; Given PushedBatch; Taken TakenMessages")
me("mqservice.delivery.socket.held.Held", "ended expired; to_extend due_for_extension; take_batch pop_batch; take pop")
c("mqservice.delivery.socket.held_batch", "HeldBatch LeasedBatch")
a("mqservice.delivery.socket.subscription.Subscription", "held leased")
a("mqservice.delivery.socket.settlement._Part", "_held _leased")
c("mqservice.delivery.socket.kept", "KeptSession SavedSession; KeptSubscription SavedSubscription; KeptRun SavedRun")
f("mqservice.delivery.socket.kept", "kept_session saved_session; held_leases session_leases; restore_held restore_leased; _kept_subscription _saved_subscription")
me("mqservice.delivery.socket.kept.KeptSubscription", "wanted wanted_filter")
me("mqservice.delivery.socket.fetches.Fetches", "heard on_notice; begin start; _begin _start; _may_begin _may_start")
me("mqservice.delivery.socket.fetches.Fetch", "is_good has_messages")
a("mqservice.delivery.socket.fetches.Fetches", "_under_way _running")
me("mqservice.delivery.socket.credit.Credits", "is_told_open is_reported_open")
a("mqservice.delivery.socket.credit.Credits", "_told _reported")
c("mqservice.delivery.socket.confirming", "Confirming PublishConfirms")
c("mqservice.delivery.socket.settlement", "Settlement SettleBatches")
me("mqservice.delivery.socket.settlement.Settlement", "settling unconfirmed; _answer _confirm; _answer_failed _confirm_failed; _forget _discard")
a("mqservice.delivery.socket.settlement.Settlement", "_settling _unconfirmed")
me("mqservice.delivery.socket.resumption.Resumption", "take take_over; _give_back _release; go_on resume")
f("mqservice.delivery.socket.resumption", "_tell_again _notify_lost_again; _held_by _tags_client_has; _nobody_asks _ignore_sent")
a("mqservice.delivery.socket.resumption.Resumption", "_gone _lost; _kept _saved")
k("mqservice.delivery.socket.resumption", "_GIVEN_BACK _RELEASED")
c("mqservice.delivery.socket.sender", "SessionOver SessionClosed")
me("mqservice.delivery.socket.session.Session", "_keep _save; _begin_drain _start_drain; rechecked key_rechecked")
a("mqservice.delivery.socket.session.SessionEnded", "is_kept is_resumable")
a("mqservice.delivery.socket.session.Session", "_heard_ms _received_ms; _begun_ms _started_ms; is_over is_closed")
me("mqservice.delivery.socket.subscription.Subscription", "lose revoke; tell_lost notify_lost; tell_flow notify_flow; tell_paused notify_paused; _extend_by_itself _extend_leases; _give_up _dead_letter; _take _pop")
k("mqservice.delivery.limits", "KEPT_BYTES_MAX SAVED_SESSION_BYTES_MAX; HELD_UP_MS BLOCKED_MS; REASON_ASKED_CHARS_MAX REASON_QUERY_CHARS_MAX; TAKE_OVER_MS_MAX HAND_OVER_MS_MAX")
f("mqservice.errors", "_nothing_stored _nothing_stored") if False else None

# ------------------------------------------------------------------------ service: lib
f("mqservice.lib.client_gone", "when_gone on_disconnect; has_gone is_disconnected")
c("mqservice.lib.strangers", "Strangers UnauthenticatedConnections")
f("mqservice.lib.whole_answer", "write_whole write_response")
c("mqservice.lib.request_target", "TargetRefused TargetRejected")
c("mqservice.lib.shared_cache", "SharedCache ValkeyCache") if False else None
a("mqservice.lib.shared_cache.SharedCache", "_away_until _unavailable_until")
k("mqservice.lib.shared_cache", "AWAY_SECONDS UNAVAILABLE_SECONDS")
a("mqservice.lib.lookup_cache.LookupCache", "_is_away _is_unavailable; _under_way _running")
me("mqservice.lib.lookup_cache.LookupCache", "_keep _store; _find_in_time _find_with_timeout")
me("mqservice.lib.json_fields.Fields", "refuse reject; refuse_unknown reject_unknown; given pick_twin")
me("mqservice.lib.web_sockets.SocketProtocol", "_keep_to_budget _apply_budget; _go_on _continue; _go_on_unless_waiting _continue_unless_waiting; _read_on _resume_reading; _send_owed_pong _send_due_pong")
me("mqservice.lib.loop_turns.LoopTurns", "_begin_next _start_next")
me("mqservice.lib.socket_budget.SocketBudget", "_begin_second _start_second; _note_excess _record_excess")
me("mqservice.lib.yaml_text._Reader", "_refuse_references _reject_references")
f("mqservice.lib.yaml_text", "_refuse_unclear _reject_ambiguous; _refuse _reject; _is_other _is_ambiguous")

# ------------------------------------------------------------------------ service: monitoring, quotas
f("mqservice.monitoring.background", "_answers _collect_replies; signs_of_life heartbeat_ages") if False else None
f("mqservice.monitoring.background", "_answers _collect_replies")
k("mqservice.monitoring.background", "ASKED_MAX QUERIES_MAX; ANSWER_SECONDS REPLY_SECONDS")
c("mqservice.quotas.exchange", "ExchangeAway ExchangeUnavailable")
c("mqservice.quotas.holdings", "Holdings EngineUsage")
me("mqservice.quotas.holdings.Holdings", "look update; _learn_names _load_names")
k("mqservice.quotas.holdings", "LOOK_MS UPDATE_MS; _FAR_LOOK_MS _FAR_UPDATE_MS; _NAMES_KEPT_MS _NAMES_CACHED_MS")
c("mqservice.quotas.refusals", "Refusals PacedRejections; RefusalPaces RejectionPacer")
k("mqservice.quotas.refusals", "REFUSALS_PER_SECOND REJECTIONS_PER_SECOND; REFUSALS_AT_ONCE REJECTIONS_AT_ONCE")
f("mqservice.quotas.refusals", "_held _held_bytes")
f("mqservice.quotas.usage", "_held _engine_usage")
me("mqservice.quotas.meter.TenantMeter", "hold set_engine_usage; take_demand pop_demand; relimit set_limits")
a("mqservice.quotas.meter.TenantMeter", "_told_in _reported_in; _told_out _reported_out")
k("mqservice.quotas.meter", "_UNTOLD _NOT_REPORTED")
me("mqservice.quotas.meters.Meters", "_is_heard_of _is_reporting_due")
a("mqservice.quotas.meters.Meters", "_heard _peer_reports; _told_ms _reported_ms")
me("mqservice.quotas.peers.Peers", "gone departed")
a("mqservice.quotas.peers.Peers", "_heard _reports")
k("mqservice.quotas.peers", "GONE_MS DEPARTED_MS")
c("mqservice.quotas.control_rate", "Taken RateDecision")
a("mqservice.quotas.control_rate.ControlRate", "_away_until_ms _unavailable_until_ms")
k("mqservice.quotas.control_rate", "_AWAY_MS _UNAVAILABLE_MS; _LIMITS_KEPT_MS _LIMITS_CACHED_MS")

# ------------------------------------------------------------------------ service: reference
f("mqservice.reference.parts", "answer response_object")
c("mqservice.reference.page", "Answer ResponseCard")
me("mqservice.reference.struct_schemas.StructSchemas", "_twin _decodable_copy")
a("mqservice.reference.struct_schemas.StructSchemas", "_twins _decodable_copies")

# ------------------------------------------------------------------------ service: reports
c("mqservice.reports.spark", "Unwanted RunSuperseded")
f("mqservice.reports.spark", "_heard _read_progress")
c("mqservice.reports.running", "_Heart _ClaimRenewer")
me("mqservice.reports.running._Heart", "tell on_progress; beat renew_if_due")
f("mqservice.reports.running", "take_run run_reports")
f("mqservice.reports.mails", "note_mails queue_emails; claim_mails claim_emails; send_mail send_email; drop_old_mails delete_old_emails; mail_of compose_email")
f("mqservice.reports.nights", "missed_nights missed_days")
f("mqservice.reports.runs", "make_nights create_due_runs; _was_anybody_there _had_traffic; _mine _claimed_by; drop_old_runs delete_old_runs")
f("mqservice.reports.queries", "find_last_night find_last_nightly_run; _seen_by _visible_to")
f("mqservice.reports.results", "drop_old delete_old")
f("mqservice.reports.services", "order_run request_run")
k("mqservice.reports.limits", "ORDERED_DAYS_MAX REQUESTED_DAYS_MAX; KEPT_RUNS_MAX RETAINED_RUNS_MAX; KEPT_MS RETAINED_MS; MAIL_KEPT_DAYS EMAIL_RETAINED_DAYS; NIGHTS_MAX DUE_DAYS_MAX; MAIL_ATTEMPTS_MAX EMAIL_ATTEMPTS_MAX; MAIL_RETRY_MS EMAIL_RETRY_MS; MAIL_CLAIM_MS EMAIL_CLAIM_MS; MAIL_LIMIT_S EMAIL_LIMIT_S; MAILS_SWEPT_MAX EMAILS_SWEPT_MAX; MAIL_PAGE_BYTES_MAX EMAIL_PAGE_BYTES_MAX; MAIL_LINES_MAX EMAIL_LINES_MAX")
f("mqservice.reports.settles", "are_marks_kept are_marks_available")
c("mqservice.reports.day", "Behind GroupLag; Stored TopicStorage; Used TopicUsage; _Days _DayRows")
c("mqservice.console.reports", "NightRow ReportDayRow; NightsPage ReportDaysPage")
f("mqservice.console.reports", "nights_page report_days_page")

# ------------------------------------------------------------------------ service: sampling, schedules, tasks, traces, usage
c("mqservice.sampling.metrics", "Told MetricColumn")
c("mqservice.sampling.marks", "Standing GroupPositions; Place QueuePosition")
f("mqservice.sampling.marks", "keep_marks write_marks; places_of positions_of; encode_places encode_positions; decode_places decode_positions; clean_marks delete_old_marks")
f("mqservice.sampling.offsets", "keep_step save_offset_step; clean_offsets delete_old_offsets")
f("mqservice.sampling.rollup", "clean_samples delete_old_samples")
k("mqservice.sampling.limits", "OFFSET_STEPS_KEPT_MS OFFSET_STEPS_RETAINED_MS; MARKS_KEPT_MS MARKS_RETAINED_MS; KEPT_MS RETAINED_MS")
f("mqservice.schedules.queries", "gone_topics missing_topics")
f("mqservice.schedules.message", "keep set_message")
f("mqservice.schedules.runs", "_go_on _advance; refuse record_rejection; sent record_sent")
f("mqservice.schedules.sending", "_send_some _send_chunk")
f("mqservice.schedules.services", "_refuse_missing _require_fields; _refuse_other_revision _require_revision")
me("mqservice.schedules.charging.Charges", "take charge")
me("mqservice.scheduler.LeaderScheduler", "_begin_term _start_term; _close_asking _close_query_connection; _show_life _send_heartbeat")
f("mqservice.supervisor.restarting", "_has_come _wait_until; _is_gone _has_exited")
f("mqservice.supervisor.gates", "has_not_ended is_running")
f("mqservice.supervisor.operating", "_is_told _has_service_environment")
f("mqservice.supervisor.waiting", "why_not connection_problem")
k("mqservice.supervisor.operating", "_UNSAID _UNSET")
me("mqservice.supervisor.child.Child", "_bury _reap")
c("mqservice.tasks.services", "TaskOrder TaskRequest")
f("mqservice.tasks.services", "_make_room _require_room")
k("mqservice.tasks.limits", "KEPT_TASKS_MAX RETAINED_TASKS_MAX")
f("mqservice.tasks.batch", "noted encode_note")
f("mqservice.tasks.turns", "_let_go _release_claim")
c("mqservice.tasks.walk", "Spot DeadLetterRef")
c("mqservice.traces.queries", "Road MessageTrace")
f("mqservice.traces.queries", "road_of find_trace")
c("mqservice.usage.queries", "Per Interval; By GroupBy; UsageQuestion UsageQuery")
c("mqservice.usage.counts", "Taken UsageBatch")
me("mqservice.usage.counts.UsageCounts", "give_back put_back; take drain")
c("mqservice.web", "ConfigRefused ConfigInvalid; AddressRefused AddressUnavailable")

# ======================================================================== test modules
m("tests.acceptance.history", "asking poll_status") if False else None
m("tests.docs", "made generated; test_made test_generated")
m("tests", "dying kill_points")
m("tests.planted", "trying run_plant")
m("tests.mqservice", "beating beat_process; test_refusals test_error_responses; test_whole_answer test_whole_response")
m("tests.mqservice.alerts", "test_states test_rule_status")
m("tests.mqservice.cli", "test_looking test_browse_command; test_reading test_consume_from_position")
m("tests.mqservice.console", "test_curls test_curl_commands; test_words test_labels")
m("tests.mqservice.delivery", """
test_held test_leased_messages
test_once test_idempotency
test_confirming test_publish_confirms
test_receive_again test_receive_repeats
test_socket_ends test_socket_close
test_socket_held_up test_socket_delivery_blocked
test_socket_refusals test_socket_errors
test_strangers_memory test_unauthenticated_memory
test_produce_refusals test_produce_errors
test_browse_refusals test_browse_errors
test_dead_letter_refusals test_dead_letter_errors
told_double reply_handler_double
waiting wait_until
""")
m("tests.mqservice.delivery.resume", "test_refusals test_resume_errors")
m("tests.mqservice.issues", "dying_scanner killed_scanner")
m("tests.mqservice.tasks", "dying_worker killed_worker")
m("tests.mqservice.schedules", "dying_worker killed_worker")
m("tests.mqservice.people", "visiting visitors")
m("tests.mqservice.quotas", "manual doubles; test_holdings test_engine_usage; test_refusals test_rejection_pacing")
m("tests.mqservice.reports", "test_mails test_emails; test_nights test_due_days")
m("tests.mqservice.sampling", "test_marks test_progress_marks")
m("tests.mqservice.supervisor", "test_operating test_operator_commands; test_waiting test_wait_for_postgres")
m("tests.storage_engine", """
asking requests
retrying retry_records
test_adopting test_adopt
test_broadcast_refusals test_broadcast_errors
test_delivery_parked test_waiting_receives
test_kept_sessions test_saved_sessions
test_looking test_filter_scan
test_message_group_looks test_message_group_scans
test_namespace_uses test_namespace_usage
test_once_puts test_idempotent_puts
test_quick_due test_due_fast_path
test_refused_stores test_rejected_stores
test_told_calls test_reply_handlers
test_tracing test_message_trace
test_answer_model test_reply_model
""")
m("tests.storage_engine.filters", "test_refusals test_filter_errors")
m("tests.torture", "once_promises idempotency_promises")
m("tests.analytics", "test_nightly test_report_run")
a("storage_engine.consumption.Consumption", "kept_sessions saved_sessions; receiving receiver; _broadcasting _broadcast_groups") if False else None

w("mqservice/reference/*.py,tests/mqservice/reference/*.py,tests/docs/*.py", """
"Settlement" "SettleItems"
"NewTime" "RescheduleRequest"
""")

k("mqservice.usage.limits", "KEPT_MS RETAINED_MS")
me("tests.storage_engine.test_saved_sessions.Web, tests.storage_engine.test_broadcast_receives.Ear, tests.storage_engine.test_notices.Ear", "hear on_notice")
me("mqservice.delivery.put.Put", "hand_over send_to_store; answer response")
for _line in Path(__file__).with_name("glossary_tests.txt").read_text().splitlines():
    ROWS.append((*_line.split("\t"), ""))  # type: ignore[arg-type]
# settings of the engine: MQ_ENGINE_…
w("storage_engine/*,mqservice/*.py,tests/*,docs/*.md,deploy/*,bench/*,README.md,ARCHITECTURE.md,compose.yaml", """
kept_session_ms_max saved_session_ms_max
kept_session_count_max saved_session_count_max
kept_session_bytes_max saved_session_bytes_max
parked_count_max waiting_receive_count_max
broadcast_client_kept_ms broadcast_client_expiry_ms
""")
me("tests.mqservice.delivery.test_publish_confirms._Put", "hand_over send_to_store")
a("tests.mqservice.delivery.test_publish_confirms.Sessions", "is_over is_closed")
