-- Of several orders under one event id all but one are dead letters: each is found by its order.
alter table dead_letters add column order_id text;
create index dead_letters_order on dead_letters (client_id, order_id) where order_id is not null;

-- Letters of before say it in the message of their first failure alone. A later one may be of another order.
update dead_letters set order_id = nullif(
  substring(first.message from '; this is a [^;]* of order (.*), [^,;]*: send it under an id of its own$'), 'none')
from dead_letter_failures as first
where first.letter_id = dead_letters.letter_id and dead_letters.code = 'id_conflict'
  and first.source_topic = dead_letters.source_topic and first.source_partition = dead_letters.source_partition
  and first.source_offset = dead_letters.source_offset;
