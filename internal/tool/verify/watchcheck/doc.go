// Package watchcheck records the events that watches deliver, and validates them against the
// changes that were made. There is one validator for each guarantee of a watch.
//
//	writes ─────────── Truth ──┐
//	                           ├── Validate
//	server ── Reader ── Watch ─┘
//
// The caller records every change in a Truth. Tests read the changes from etcd itself (package
// etcdtruth), and verify derives them from answers. The caller reads the answer to each watch
// with a Reader, and appends the frames to a Watch. In the end it passes both to Validate.
//
// The validators know nothing of the server. They relate a watch to the truth by revisions
// alone, so the two may be recorded at different times and speeds. This package does not
// compare the bytes of frames; package differential does.
package watchcheck
