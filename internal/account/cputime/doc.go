// Package cputime reads the CPU time that this process has used, in user mode and in the kernel.
// It cannot tell how much of that time one goroutine or one request has used: package usage
// estimates the CPU of requests.
package cputime
