-- For the rows of before, behind everything else: until it is done their parts are read whole, as they were.
alter table events materialize index by_event, materialize index by_first
