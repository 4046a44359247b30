-- What moves is probed like what answers: one more row, and the check of the names that there are.
alter table probe_states drop constraint probe_states_name_check;
alter table probe_states add constraint probe_states_name_check
  check (name in ('analytics_store', 'cache_store', 'object_store', 'relational_store', 'event_log', 'event_processing'));
insert into probe_states (name) values ('event_processing');
