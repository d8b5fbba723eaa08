// Package feedtest checks that a feed keeps the contract of package feed. Each implementation
// calls Run in its own tests, with a Source that a test writes to, breaks and restores:
//
//	Run ──writes, breaks──► Source ──► feed.Feed under test ──► Sink ──► compared with the writes
//
// APIServer is a Source for feeds of an API server: it serves one resource from memory as
// kube-apiserver does, or as a replica does.
package feedtest
