// Package slo measures how long events take from etcd to their watchers: their spans.
// It also keeps accounts of the feeds from etcd, and of the probe.
//
// The types of its reports are in package serverreport. Package usage is for GETs and LISTs.
package slo
