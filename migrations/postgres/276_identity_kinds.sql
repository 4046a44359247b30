-- Further kinds of identity edges, and the end of edges: the keeper purges those that ran out, an erasure takes those of its subject.
alter table identity_edges drop constraint identity_edges_kind_check;
alter table identity_edges add constraint identity_edges_kind_check
  check (kind in ('email', 'login', 'phone', 'session', 'click', 'fingerprint', 'email_across', 'phone_across'));
create policy keeper on identity_edges to tributary_keeper using (true);
grant select, delete on identity_edges to tributary_keeper;
