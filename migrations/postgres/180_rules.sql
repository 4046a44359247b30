-- A rule that was deleted stays for the sales that name it. Null, as processes of before write it: not archived.
alter table rules add column archived boolean;
create index rules_client on rules (client_id);
