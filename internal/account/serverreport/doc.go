// Package serverreport has the types of the reports that the server gives: the JSON of
// /debug/millrace/, which the dashboard and `millrace-tools top` show.
//
// Package slo fills the reports on watches and feeds, and package usage the reports on
// GETs and LISTs. Packages crd, tiermount and replica fill the others. A program that
// reads reports needs this package alone. It computes nothing but names: how a client is
// called, and how the shape of a request is written.
package serverreport
