import "https://cdn.jsdelivr.net/npm/tabloom@0.1.0/worker.js";
