// Package dashboard shows people what the server knows about itself: reports as JSON
// below /debug/millrace/, and a page at /millrace/ that shows them.
//
//	browser ─► Shell: page's files ─► authentication, authorization ─► Handler: reports
//
// Handler serves the reports and checks no rights: the caller puts authentication and
// authorization in front of it. Shell serves the page. The page holds no data, so the
// server may serve it without authentication and authorization.
//
// Package serverreport says what reports mean. Programs that scrape should use /metrics
// instead.
package dashboard
