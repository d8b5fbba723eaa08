// Package load sends the same request from several clients at once, and measures
// what a request costs the server.
//
// A Loader runs a Workload against one server. Each client has a connection of its
// own and sends its next request when it has read the last answer whole (a closed
// loop). The first answer is captured in a file and validated. Of the others only
// the size is checked, because decoding would take CPU from the server.
//
// A Comparison joins the Results of several servers into a table, a plot and notes.
// The caller chooses the workloads and connects the meter to the server's process.
package load
