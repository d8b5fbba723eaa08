// Package load sends the same request from several clients at once, and measures
// what a request costs the server.
//
// A Loader runs a Workload against one server. Each client has a connection of its own. It sends
// its next request after it has read the last answer completely (a closed loop), and not before
// Plan.Every has passed. The Loader captures the first answer in a file and validates it. Of
// measured answers it only checks the size, because decoding would take CPU from the server.
//
// A Comparison joins the Results of several servers into a table, a plot and notes.
// The caller chooses the workloads, and gives the Loader a meter of the server's process.
package load
