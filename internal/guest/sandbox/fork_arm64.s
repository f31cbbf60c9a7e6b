#include "textflag.h"

// func vfork(flags uintptr) (pid int, errno uintptr)
//
// The child runs on the parent's stack: the address to return to is in a
// register, which each has for itself.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-24
	MOVD	flags+0(FP), R0
	MOVD	ZR, R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	$220, R8 // clone
	SVC
	CMN	$4095, R0
	BCS	failed
	MOVD	R0, pid+8(FP)
	MOVD	ZR, errno+16(FP)
	RET
failed:
	NEG	R0, R0
	MOVD	ZR, pid+8(FP)
	MOVD	R0, errno+16(FP)
	RET
