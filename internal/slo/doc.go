// Package slo measures how long events take from etcd to their watchers, and keeps
// accounts of who reads what at which cost.
//
// What it tells is in the types of report.go; they are the JSON of
// /debug/millrace/, which the dashboard and `millrace top` show.
package slo
