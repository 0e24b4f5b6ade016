// The package's worker, observed.
import "./probe.js";
import "./tabloom/worker.js";
