#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tabloom_fuzz::draft(data));
