-- As for events.
alter table receipts modify setting merge_selector_base = 20
