// <tabloom-chat> in React.
import "tabloom/react";
