// Package watch is the command "bench watch". It measures what events cost a server that has many
// watchers, and how long events take to arrive. It also measures the memory of informers that begin
// with a watch-list.
//
//	writer ── writes at a rate, each with its time ──► server
//	                                                      │ events
//	watcherGroup ◄────────────────────────────────────────┘
//	   takes the time of the write out of each event
//
// Writer and watchers run on one machine, and so share one clock. The measurement ends when all
// events of the measured writes have arrived: the CPU belongs to exactly these events.
package watch
