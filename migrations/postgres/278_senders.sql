-- Whose payload an edge refused: src_7, or the name of a payment processor; null: no sender has settings of its own. What
-- was refused before its sender was corrected is tried again at once.
alter table dead_letters add column sender text;
create index dead_letters_sender on dead_letters (sender, client_id, last_failed_at)
  where sender is not null and state in ('waiting', 'parked');

-- When it was saved, and nothing of what.
create policy keeper on payment_processors for select to tributary_keeper using (true);
grant select (client_id, processor, updated_at) on payment_processors to tributary_keeper;

-- Sources of a client that is archived are not pulled, and are no fault of the installation's health.
create policy standing on clients for select to tributary_keeper, tributary_edge using (true);
grant select (client_id, version, status) on clients to tributary_keeper, tributary_edge;
