(* SPDX-License-Identifier: MIT *)
(* OCaml's exceptions, which are a return to the handler, and callbacks. The log's address is that of
   the code which calls it. A function that handles exceptions does not call itself here: which of
   its calls a handler belongs to is not in a trace. *)

external enter : unit -> unit = "calls_enter_here" [@@noalloc]
external leave : unit -> unit = "calls_exit_here" [@@noalloc]
external mark : unit -> (int [@untagged]) = "no_bytecode" "calls_mark" [@@noalloc]
external unwind : (int [@untagged]) -> unit = "no_bytecode" "calls_unwind" [@@noalloc]

exception Odd of int

let[@inline never] leaf n =
  enter ();
  if n land 1 = 1 then raise (Odd n);
  leave ();
  n

let[@inline never] rec frames depth n =
  enter ();
  let value = if depth = 0 then leaf n else frames (depth - 1) n + 1 in
  leave ();
  value

let[@inline never] caught depth n =
  enter ();
  let m = mark () in
  let value = try frames depth n with Odd k -> unwind m; k in
  leave ();
  value

let[@inline never] again n =
  enter ();
  let m = mark () in
  let value = try caught 3 n + leaf n with Odd k -> unwind m; raise (Odd (k + 2)) in
  leave ();
  value

let[@inline never] outer n =
  enter ();
  let m = mark () in
  let value = try again n with Odd k -> unwind m; k in
  leave ();
  value

let[@inline never] compare_logged a b =
  enter ();
  let value = compare (a : int) b in
  leave ();
  value

let[@inline never] closures n =
  enter ();
  let sum = ref 0 in
  List.iter (fun i -> sum := !sum + (try caught i n with Not_found -> 0)) [1; 2; 3];
  let sorted = List.sort compare_logged [3; 1; 2; n] in
  leave ();
  !sum + List.length sorted

let () =
  let sum = ref 0 in
  for i = 0 to 99 do
    sum := !sum + caught (i mod 9) i
  done;
  sum := !sum + outer 4 + outer 5 + closures 5;
  sum := !sum + (try int_of_string "none" with Failure _ -> caught 2 1);
  if !sum = 0 then exit 1
