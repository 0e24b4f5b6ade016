// Paths of icons, 24 by 24.
export const ARROW_UP = "M12 19V5M5.5 11.5 12 5l6.5 6.5";
export const ARROW_DOWN = "M12 5v14M5.5 12.5 12 19l6.5-6.5";
export const SQUARE = "M7 7h10v10H7z";
export const COPY = "M9 9h11v11H9zM15 9V4H4v11h5";
export const AGAIN = "M4.5 12a7.5 7.5 0 1 0 2.4-5.5M4.5 4v4h4";
export const PENCIL = "M4.5 19.5l1-4L16 5l3 3L8.5 18.5zM13.5 7.5l3 3";
export const CHEVRON_LEFT = "M14.5 6l-6 6 6 6";
export const CHEVRON_RIGHT = "M9.5 6l6 6-6 6";
/** Two triangles, forward. */
export const GO_ON = "M5 6l6.5 6L5 18zM12.5 6l6.5 6-6.5 6z";
/** A speech bubble with a plus. */
export const BUBBLE = "M4 5h16v11.5H11L6.5 20v-3.5H4zM12 8v5.5M9.25 10.75h5.5";
/** Threads, over and under. */
export const WEAVE = "M8 3v3.5M8 10.5V21M16 3v10.5M16 17.5V21M3 8.5h10.5M17.5 8.5H21M3 15.5h2.5M10 15.5h11";
export const CLIP = "M8.5 12.5 15 6a2.8 2.8 0 0 1 4 4l-8.5 8.5a4.9 4.9 0 0 1-7-7L11 4";
export const SPEAKER = "M4.5 9.5H8l4.5-4v13l-4.5-4H4.5zM16 9a4.2 4.2 0 0 1 0 6";
