-- Half of each page is kept free, so that a changed row finds room beside itself and no index has
-- to follow it.
ALTER TABLE sampling_consumeroffset SET (fillfactor = 50);
