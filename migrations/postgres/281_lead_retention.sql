-- What is personal of a lead ends after the months of its client: the keeper purges it, and reads none of it.
create policy keeper on leads to tributary_keeper using (true);
create policy keeper on lead_people to tributary_keeper using (true);
create policy keeper on lead_keys to tributary_keeper using (true);
grant select (client_id, lead_id, client_lead_id, received_at), update (client_lead_id) on leads to tributary_keeper;
grant select (client_id, lead_id, email, phone), delete on lead_people to tributary_keeper;
grant select (client_id, kind, subject), delete on lead_keys to tributary_keeper;
-- Leads that still bear their own id, by age: what was purged is not looked at again.
create index leads_unpurged on leads (client_id, received_at) where client_lead_id is not null;
