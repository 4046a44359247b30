-- Whether the users of a client read its leads in plain text. They did until now, and do unless the client says otherwise.
alter table clients add column leads_in_plain boolean not null default true;
