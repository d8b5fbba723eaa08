// Package watch is the command "bench watch": it measures what events cost a server
// that has many watchers, how long they take, and the memory of informers that
// begin with a watch-list.
//
//	writer ── writes at a rate, each with its time ──► server
//	                                                      │ events
//	watcherGroup ◄────────────────────────────────────────┘
//	   takes the time of the write out of each event
//
// Writer and watchers share this process and so one clock. All events of the
// measured writes are awaited, so that CPU and events belong together exactly.
package watch
