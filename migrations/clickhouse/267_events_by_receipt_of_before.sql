-- For the rows of before, behind everything else, as for by_event.
alter table events materialize index by_receipt
