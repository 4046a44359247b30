-- A viewer without clients has seen all of them, also one that had just lost its last client or was a manager before. Seeing all is said now.
alter table users add column all_clients boolean not null default false check (not all_clients or (role = 'viewer' and client_ids = '{}'));
update users set all_clients = true where role = 'viewer' and client_ids = '{}';
