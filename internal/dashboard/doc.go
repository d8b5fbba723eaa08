// Package dashboard is how people see what the server knows about itself: reports
// as JSON below /debug/millrace/, and a page at /millrace/ that shows them.
//
// Handler gives the reports and holds no rights of its own: the caller puts it
// behind authentication and authorization. Shell gives the page, which holds no
// data and may stand in front of both. What is measured, and what it means, is said
// by package slo; nothing here is for machines that scrape, which have /metrics.
package dashboard
