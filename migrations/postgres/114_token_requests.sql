-- How many requests a minute a token may send: 100 unless more, or fewer, were arranged.
alter table tokens add column requests_a_minute int not null default 100 check (requests_a_minute between 1 and 10000);
grant update (requests_a_minute) on tokens to tributary_tokens;
