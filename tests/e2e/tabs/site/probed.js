// The package's worker, watched.
import "./probe.js";
import "./tabloom/worker.js";
