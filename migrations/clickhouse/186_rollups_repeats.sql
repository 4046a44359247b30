-- Repeats are counted by the hour and by the day: what a click repeats may lie in another minute, so rows of minutes have none.
alter table rollups
  add column if not exists repeats UInt64 comment 'clicks on the same link from the same address and browser less than an hour after another one; 0 in minutes',
  add column if not exists revision UInt8 default 1 comment 'volatile: which computation wrote the row; hours of an older one are computed again'
